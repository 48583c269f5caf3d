"""mm1_simpy.py FORM SEED: an M/M/1 queue of 200,000 customers in SimPy.

Prints "customers/s mean": customers served per second of CPU time, import and set-up left out, and the mean time
that a customer spent in the system. Arrivals are 1000 apart and services 800 long on average, both exponential and
drawn while the clock runs: what BenchmarkMM1 in internal/backend/sim does.

FORM is how the queue is written:
  process  as SimPy's own examples do it: a process for each customer, who requests a Resource
  event    as little of SimPy as will do: its event list alone, with callbacks on two timeouts, no process and no
           Resource; the waiting line is a deque
"""

import collections
import random
import sys
import time

import simpy

CUSTOMERS = 200_000
BETWEEN = 1000
SERVICE = 800


def by_process(env, draw):
    server = simpy.Resource(env, capacity=1)
    spent = []

    def customer():
        came = env.now
        with server.request() as turn:
            yield turn
            yield env.timeout(draw(1 / SERVICE))
        spent.append(env.now - came)

    def source():
        for _ in range(CUSTOMERS):
            yield env.timeout(draw(1 / BETWEEN))
            env.process(customer())

    env.process(source())
    return spent


def by_event(env, draw):
    line = collections.deque()
    spent = []
    came = 0

    def arrive(_):
        nonlocal came
        line.append(env.now)
        if len(line) == 1:
            env.timeout(draw(1 / SERVICE)).callbacks.append(leave)
        came += 1
        if came < CUSTOMERS:
            env.timeout(draw(1 / BETWEEN)).callbacks.append(arrive)

    def leave(_):
        spent.append(env.now - line.popleft())
        if line:
            env.timeout(draw(1 / SERVICE)).callbacks.append(leave)

    env.timeout(draw(1 / BETWEEN)).callbacks.append(arrive)
    return spent


def main():
    form = {"process": by_process, "event": by_event}[sys.argv[1]]
    env = simpy.Environment()
    spent = form(env, random.Random(int(sys.argv[2])).expovariate)
    start = time.process_time()
    env.run()
    took = time.process_time() - start
    if len(spent) != CUSTOMERS:
        sys.exit(f"served {len(spent)} customers; want {CUSTOMERS}")
    print(CUSTOMERS / took, sum(spent) / CUSTOMERS)


if __name__ == "__main__":
    main()
