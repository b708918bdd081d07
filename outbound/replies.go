package outbound

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

func interrupted() mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "delivery interrupted on our side"}
}

func cannotBeRead() mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: "the message cannot be read from the queue"}
}

func unconfigured(transport string) mail.Reply {
	return mail.Reply{
		Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 5},
		Text: mail.CleanText("mail transport " + transport + " is not configured"),
	}
}

func allBlocked(nexthop string) mail.Reply {
	return mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 4, Detail: 4},
		Text: mail.CleanText("no host of " + nexthop + " has an address that may be connected to")}
}

func noHosts(nexthop string) mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 4},
		Text: mail.CleanText("no hosts are known for " + nexthop)}
}

func contradicted() mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 5},
		Text: "enhanced status codes of other commands came in reply"}
}

// keywordMissing is for mail that only servers may have that offer REQUIRETLS (RFC 8689 4.2.1).
func keywordMissing(label string) mail.Reply {
	return mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 30}, Text: label + ": the sender demands REQUIRETLS, which the server does not offer"}
}

// soften makes a permanent reply a temporary one.
func soften(r mail.Reply) mail.Reply {
	if r.Permanent() {
		r.Code -= 100
		if r.Status.Class == 5 {
			r.Status.Class = 4
		}
	}
	return r
}

// stageOf returns the stage at which a reply came; StageUnknown of a reply of ours.
func stageOf(r *mail.Reply, waited client.WaitKind) mail.Stage {
	if r.By == "" {
		return mail.StageUnknown
	}
	switch waited {
	case client.WaitGreeting:
		return mail.StageGreeting
	case client.WaitHello:
		return mail.StageEhlo
	case client.WaitAuth:
		return mail.StageAuth
	case client.WaitMail:
		return mail.StageMail
	case client.WaitRcpt:
		return mail.StageRcpt
	case client.WaitDataInit:
		return mail.StageData
	case client.WaitDataBlock, client.WaitFinal:
		return mail.StageContent
	}
	return mail.StageUnknown
}
