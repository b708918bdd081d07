// Package pause waits for some time, unless there is no more reason to.
package pause

import (
	"context"
	"time"
)

// For reports whether the time has passed without ctx ending.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
