//go:build !unix

package machine

// descriptorLimit returns 0: there is no such limit here.
func descriptorLimit() int { return 0 }

// KeepPrivate does nothing here.
func KeepPrivate() {}
