// Package other is in a file with a bad name.
package other

import "time"

// Offset is none. FIXME: bad
const Offset = 0 * time.Second
