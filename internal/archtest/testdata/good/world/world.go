// Package world does as it likes.
package world

import "time"

var started = time.Now()

// Age returns how old the program is.
func Age() time.Duration { return time.Since(started) }

type hidden struct{}

func (hidden) Exported() {}
