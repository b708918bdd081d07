// Package spread keeps deliveries to one destination from starting, and so from ending, all at once. Where a destination has more
// waiting than it can take, deliveries that begin together and take equally long end
// together ever after: all room comes at one moment, and mail of another flow that arrives in
// between waits for half the time that a delivery takes, on average.
//
// So starts are spread: after each there is a pause of half the time in which one slot
// would come free on average, if they came free evenly. What was bunched is spread out once,
// which costs each connection a fraction of one delivery, and stays spread: deliveries that
// start one after the other also end so. The pause is at most half of what deliveries
// leave between them anyway, and when they become faster, the latest of them counts. A pause
// of less than a millisecond is not worth a timer.
//
// Deliveries that vary in length spread out by themselves, and chance brings two of them close
// together again and again, where a pause would only cost. So there is a credit: half a
// delivery for each slot when it is used first, which is what a bunch takes to be spread out, and then one
// part in costPart of each delivery. What a slot waits because of a pause is paid from it, and
// without credit there is no pause.
//
// It is done for mail that is classified, over connections. Entries of many recipients are cut instead where a volley of them
// starts ([Volley]), so that they end one after the other.
package spread
