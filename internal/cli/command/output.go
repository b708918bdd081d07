package command

import (
	"io"
	"os"

	"golang.org/x/term"
)

// An Output is the standard output. It keeps the first error of writing to it.
type Output struct {
	io.Writer
	Err error
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.Err == nil {
		o.Err = err
	}
	return n, err
}

// File returns the file that is behind a stream.
func File(stream any) (*os.File, bool) {
	if out, ok := stream.(*Output); ok {
		stream = out.Writer
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// Terminal returns the width of a stream's terminal in columns; 0 if it is
// none.
func Terminal(stream any) int {
	f, ok := File(stream)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}
