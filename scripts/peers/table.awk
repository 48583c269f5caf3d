# table.awk: the table of bench-peers from its lines "CASE SPEED", a repetition after another. A ratio is that of two speeds
# of one repetition; what stands is the median of the repetitions and their range. Exits with 3 where a median
# falls short of what is wanted.

{ n[$1]++; speed[$1, n[$1]] = $2 }

# summarize sorts v[1] to v[count] and sets median, low and high.
function summarize(v, count,    i, j, x) {
	for (i = 2; i <= count; i++) {
		x = v[i]
		for (j = i - 1; j >= 1 && v[j] > x; j--)
			v[j + 1] = v[j]
		v[j + 1] = x
	}
	low = v[1]
	high = v[count]
	median = count % 2 ? v[(count + 1) / 2] : (v[count / 2] + v[count / 2 + 1]) / 2
}

function speeds(name,    v, i) {
	for (i = 1; i <= n[name]; i++)
		v[i] = speed[name, i] / 1e3
	summarize(v, n[name])
}

function ratios(name, to,    v, i) {
	for (i = 1; i <= n[name]; i++)
		v[i] = speed[name, i] / speed[to, i]
	summarize(v, n[name])
}

# row prints a case and, where over is another, how many times as fast over is.
function row(label, name, over) {
	speeds(name)
	printf "  %-38s %3d %9.1f  %7.1f to %7.1f", label, n[name], median, low, high
	if (over) {
		ratios(over, name)
		printf "  %7.1f  %6.1f to %.1f", median, low, high
	}
	printf "\n"
}

function head(unit) {
	printf "  %-38s %3s %9s  %18s  %7s  %15s\n", unit, "n", "median", "range", "ratio", "range"
}

# fastest returns which of the count schedulers s has the highest median in a form.
function fastest(form,    i, top, name) {
	for (i = 1; i <= count; i++) {
		speeds(s[i] form)
		if (median > top) {
			top = median
			name = s[i]
		}
	}
	return name
}

function verdict(peer, want) {
	printf "  times as fast as %s: %.1f, wanted at least %d: %s\n\n", peer, median, want, (median >= want ? "yes" : "NO")
	if (median < want)
		short = 3
}

END {
	printf "Speeds in thousands per second of CPU time, one thread each; %s\n\n", versions

	print "M/M/1, 200,000 customers a run, one server, first come first served. Both sides draw every interval (exponential,"
	print "means 1000 and 800) in the timed part and add up each customer's time in the system."
	head("customers")
	row("napistall's queue", "mm1")
	row("SimPy, a process for each customer", "process", "mm1")
	row("SimPy, its event list alone", "event", "mm1")
	ratios("mm1", "process")
	verdict("SimPy as its examples are written", 80)

	print "16 sources, each of which schedules itself anew, exponential, mean 1000 ns, drawn in the timed part. Both sides give"
	print "the earliest of 16 instants in whole nanoseconds, ties in a fixed order."
	head("events")
	row("napistall's queue", "events")
	count = split(schedulers, s, " ")
	for (i = 1; i <= count; i++) {
		row("ns-3 " s[i] "Scheduler", s[i] "-usual", "events")
		row("ns-3 " s[i] "Scheduler, spare", s[i] "-spare", "events")
	}
	best = fastest("-spare")
	ratios("events", best "-spare")
	printf "  times as fast as ns-3 at its sparest, %sScheduler: %.1f\n", best, median
	best = fastest("-usual")
	ratios("events", best "-usual")
	verdict("ns-3 as its manual has it, with the fastest of its schedulers (" best ")", 5)

	print "Not the same on both sides: ns-3 and SimPy take any number of events and call a function for each; napistall's queue has"
	print "32 fixed slots, as many as the simulator needs, and its caller acts on the slot's number. spare: one event object per"
	print "source used again and the C++ library's numbers, instead of Simulator::Schedule with a member function and ns-3's own."
	print "Wanted is a ratio to SimPy and ns-3 as they are meant to be used; SimPy's event list alone and ns-3's spare form"
	print "show what is left of it against the least that either can do."
	exit short
}
