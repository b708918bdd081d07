package qmgr

import (
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/views"
)

// The names under which hosts know what can be seen of the core (packages views and flows).
type (
	Counts             = views.Counts
	View               = views.Core
	LookupsView        = views.Lookups
	TransportView      = views.Transport
	TransportState     = views.TransportState
	QueueSum           = views.QueueSum
	QueueView          = views.Queue
	DestinationQuery   = views.Query
	DestinationPlace   = views.Position
	DestinationList    = views.List
	DestinationSummary = views.DestinationSummary
	DestinationView    = views.Destination
	MessageView        = views.Message
	RecipientView      = views.Recipient
	PlaceView          = views.Place
	Ordered            = views.Ordered
	SourceView         = views.Source
	AddressView        = views.Address
	SourcePool         = views.Pool
	WaitReason         = views.WaitReason
	WaitKind           = views.WaitKind
	Condition          = views.Condition
	FlowQuery          = flows.Query
	FlowList           = flows.List
	FlowView           = flows.View
	FlowPlace          = flows.Place
	Sharing            = flows.Sharing
	TenantList         = flows.TenantList
	TenantView         = flows.TenantView
)

// Their values are explained in package views.
const (
	TransportAlive = views.TransportAlive
	TransportDead  = views.TransportDead

	OrderedNothing = views.OrderedNothing
	OrderedHold    = views.OrderedHold
	OrderedDrop    = views.OrderedDrop
	OrderedSome    = views.OrderedSome
	OrderedReroute = views.OrderedReroute
	OrderedRequeue = views.OrderedRequeue

	WaitNone             = views.WaitNone
	WaitStop             = views.WaitStop
	WaitTransportDead    = views.WaitTransportDead
	WaitDead             = views.WaitDead
	WaitDestinationDelay = views.WaitDestinationDelay
	WaitDestinationRate  = views.WaitDestinationRate
	WaitTransportRate    = views.WaitTransportRate
	WaitTransportDelay   = views.WaitTransportDelay
	WaitProcessLimit     = views.WaitProcessLimit
	WaitConnectionLimit  = views.WaitConnectionLimit
	WaitWindow           = views.WaitWindow
	WaitMessageShare     = views.WaitMessageShare
	WaitDestinationShare = views.WaitDestinationShare
	WaitSlowStart        = views.WaitSlowStart
	WaitConnectionRate   = views.WaitConnectionRate
	WaitHostLimit        = views.WaitHostLimit
	WaitHostBusy         = views.WaitHostBusy
	WaitLocalOutage      = views.WaitLocalOutage
	WaitHostLookup       = views.WaitHostLookup
	WaitConnecting       = views.WaitConnecting
	WaitDetour           = views.WaitDetour
	WaitTransaction      = views.WaitTransaction
	WaitSpread           = views.WaitSpread
	WaitTurn             = views.WaitTurn
	WaitReportTurn       = views.WaitReportTurn
	WaitLookups          = views.WaitLookups

	ConditionReady     = views.ConditionReady
	ConditionOpening   = views.ConditionOpening
	ConditionFull      = views.ConditionFull
	ConditionLimited   = views.ConditionLimited
	ConditionPaused    = views.ConditionPaused
	ConditionDead      = views.ConditionDead
	ConditionSuspended = views.ConditionSuspended
)

// WaitKinds returns all kinds of wait reasons, in the order of their numbers.
func WaitKinds() []WaitKind { return views.WaitKinds() }

// Conditions returns all conditions, in the order of their numbers.
func Conditions() []Condition { return views.Conditions() }
