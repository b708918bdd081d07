//go:build !unix

package main

// descriptorLimit returns 0: there is no such limit here.
func descriptorLimit() int { return 0 }

func keepPrivate() {}
