// Package sim runs trials without a kernel: it drives the model of the poll loop, the scheduler and RCU with a clock
// of integer nanoseconds and numbers drawn from the trial's seed. The same trial gives the same records on
// every machine.
package sim
