package driver

import (
	"sync"
	"time"
)

// A pool runs tasks on goroutines that it keeps for a while, because a used
// goroutine has a stack of the right size. It does not limit their number: its
// callers do.
type pool[T any] struct {
	run   func(T)
	tasks chan T // unbuffered: a send succeeds if a worker is idle
	wg    sync.WaitGroup
}

// poolIdle is the time for which an idle worker is kept.
const poolIdle = 5 * time.Second

func newPool[T any](run func(T)) *pool[T] { return &pool[T]{run: run, tasks: make(chan T)} }

func (p *pool[T]) start(task T) {
	select {
	case p.tasks <- task:
	default:
		p.wg.Add(1)
		go p.work(task)
	}
}

func (p *pool[T]) work(task T) {
	defer p.wg.Done()
	idle := time.NewTimer(poolIdle)
	defer idle.Stop()
	for {
		p.run(task)
		idle.Reset(poolIdle)
		select {
		case next, ok := <-p.tasks:
			if !ok {
				return
			}
			task = next
		case <-idle.C:
			return
		}
	}
}

// stop ends the idle workers and waits for the busy ones. No task may be started
// after that.
func (p *pool[T]) stop() {
	close(p.tasks)
	p.wg.Wait()
}
