package top

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	tea "charm.land/bubbletea/v2"
)

// A guard is a model whose panics end the program as the key q does. Bubbletea catches panics, too, but then
// closes the terminal and its reader from two goroutines at once (version 2.0.9): the terminal was restored twice, or not at all.
type guard struct {
	tea.Model
	quit func() // ends the program; not from within Update or View
	bug  *atomic.Pointer[string]
}

func newGuard(m tea.Model, quit func()) guard { return guard{m, quit, new(atomic.Pointer[string])} }

// caught notes a panic, the first one, and ends the program.
func (g guard) caught() {
	if r := recover(); r != nil {
		text := fmt.Sprintf("%v\n%s", r, debug.Stack())
		g.bug.CompareAndSwap(nil, &text)
		go g.quit()
	}
}

// Init implements tea.Model.
func (g guard) Init() (cmd tea.Cmd) {
	defer g.caught()
	return g.Model.Init()
}

// Update implements tea.Model.
func (g guard) Update(msg tea.Msg) (next tea.Model, cmd tea.Cmd) {
	next = g
	if g.bug.Load() != nil {
		return next, nil
	}
	defer g.caught()
	g.Model, cmd = g.Model.Update(msg)
	return g, cmd
}

// View implements tea.Model.
func (g guard) View() (v tea.View) {
	v.AltScreen = true // until the end
	if g.bug.Load() != nil {
		return v
	}
	defer g.caught()
	return g.Model.View()
}
