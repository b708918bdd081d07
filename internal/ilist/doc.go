// Package ilist is a doubly linked list whose links are fields of its
// elements.
//
// An element type has one Link field for each list that its values can be on
// at the same time:
//
//	type job struct {
//		sched  ilist.Link[job] // transport.jobs
//		byTime ilist.Link[job] // transport.jobsByTime
//	}
//
//	t.jobs.PushBack(&j.sched, j)
//	for j := t.jobs.Front(); j != nil; j = t.jobs.Next(&j.sched) { … }
//
// Nothing is ever allocated, and every operation except All and Backward
// takes constant time. A link knows the list that it is on, and every
// operation asserts it: taking an element off a list that it is not on, or
// putting it on a second one through the same link, panics at once instead of
// corrupting both lists.
package ilist
