# The work on this repository, by name. `make repro` and `make test` set up what they need on a Debian
# machine that has Go, git and make; everything else assumes that one of them ran.

GO       ?= go
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X github.com/napistall/napistall/internal/agent.version=$(VERSION)
BUILD    := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'
AGENTS   := internal/kimage/agents
# What the tests may not do without: what need-vm and need-test install, and what the environment lists beside it.
MUST     := qemu-x86,qemu-arm,apt,go,gcc,spin,dropbear,chromium,$(NAPISTALL_MUST)
# Further flags for repro's run, such as RUN='--quick'.
RUN      ?=
# What a guest can be; GOARM only matters to arm.
GUESTS   := amd64 arm arm64
CROSS    := linux/amd64 linux/arm64 linux/arm/7 linux/mips/softfloat linux/mipsle/softfloat linux/riscv64

# A program built with the race detector sleeps for a second when it ends; the scripts start many.
export GORACE = atexit_sleep_ms=0

.PHONY: repro test test-long check bench bench-peers screenshots build agents cross man clean need-vm need-test fuzz

repro: need-vm build
	bin/napistall run mainline $(RUN)

# All tests, those in VMs too. Packages run one after another: two VMs side by side on two cores
# would stall each other. The checker looks at millions of states, for which the race detector takes ten times as long:
# there it sees the shorter tests, as in check.
test: need-vm need-test build lint
	NAPISTALL_MUST=$(MUST) $(GO) test -timeout 20m ./internal/check
	$(GO) test -run 'TestScripts/(check_all|prove_words|prove_stop)' ./cmd/napistall
	$(GO) test -race -short ./internal/check
	NAPISTALL_MUST=$(MUST) $(GO) test -race -p 1 -timeout 50m $$($(GO) list ./... | grep -v '/internal/check$$')

# A real kernel, built from source as it is and with the patch, and both booted.
test-long: need-vm need-test build
	NAPISTALL_LONG=1 $(GO) test -count 1 -v -timeout 4h -run '^TestLong$$' ./cmd/napistall

check: agents lint
	$(GO) test -race -short ./...

lint:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "not gofmt'ed:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# The simulator's queue beside SimPy and ns-3, the checker beside SPIN.
bench-peers: need-test
	@scripts/bench-peers
	@scripts/bench-peers-check

# The README's picture, of a run that it makes.
screenshots: need-vm need-test
	scripts/screenshots

# Each fuzz target for a minute.
fuzz:
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime 60s $$p; done; done

build: agents
	$(BUILD) -o bin/napistall ./cmd/napistall

# The guest's side for each architecture that a guest can have, embedded by `build`.
agents:
	@for a in $(GUESTS); do \
	  GOOS=linux GOARCH=$$a GOARM=7 $(BUILD) -o bin/agent-$$a ./cmd/napistall/guest || exit 1; \
	  gz=$(AGENTS)/napistall-agent-$$a.gz; \
	  if [ ! -e $$gz ] || [ bin/agent-$$a -nt $$gz ]; then gzip -n9 <bin/agent-$$a >bin/agent-$$a.gz && mv bin/agent-$$a.gz $$gz || exit 1; fi; done

cross: agents
	@for t in $(CROSS); do set -- $$(echo $$t | tr / ' '); \
	  out=bin/napistall-$$1-$$2$${3:+-$$3}; echo $$out; \
	  case $$2 in arm) export GOARM=$$3;; mips*) export GOMIPS=$$3;; esac; \
	  GOOS=$$1 GOARCH=$$2 $(BUILD) -o $$out ./cmd/napistall || exit 1; done

man: build
	bin/napistall man bin/man

need-vm:
	@scripts/need qemu-system-x86_64=qemu-system-x86 qemu-system-arm=qemu-system-arm

# The race detector needs a C compiler; the tests of the HTML report, a browser; those over ssh, a server to log in to, which listens in a namespace of
# its own and starts nothing at boot.
need-test:
	@scripts/need gcc=gcc spin=spin ssh=openssh-client dropbearkey=dropbear-bin busybox=busybox chromium=chromium

clean:
	rm -rf bin $(AGENTS)/*.gz
