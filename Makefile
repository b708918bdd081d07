# Everything that a contributor runs, one target each. `make` lists them; the
# reasons are in CONTRIBUTING.md, and .ci/run is what must pass.

GO   ?= go
T    ?= 20s
# The pure half: what decides and what is spoken. It has to give the same
# results on every architecture. Its slow tests are shorter where it is tried on a
# foreign one (-short): there it counts that arithmetic is the same, which the
# scripts and fingerprints show, and an emulated processor takes ten times as long.
# Of random worlds it deserves more than a plain run makes (POSTHASTE_RUNS).
PURE  = $(shell $(GO) list ./... | grep -E '/(internal/(assert|ilist|minheap|prng)|mail|qmgr|route|smtp|dsn|trace|verify)(/|$$)')

# A word is a target's help if it stands behind two hashes on the target's line.
.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the program, ./posthaste
	$(GO) build -o posthaste ./cmd/posthaste

.PHONY: check
check: format vet lint test ## what must pass before a commit: format, vet, lint, test

.PHONY: format
format: ## complain about files that gofmt would change
	@files=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$files" ]; then echo "run gofmt -w on:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: lint
lint: ## staticcheck, in the version that go.mod pins
	$(GO) tool staticcheck ./...

.PHONY: vulncheck
vulncheck: ## known vulnerabilities that the program can reach; needs the Go vulnerability database
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./cmd/posthaste

.PHONY: test
test: ## all tests that need nothing but Go (the architecture is one of them)
	$(GO) test ./...

.PHONY: golden
golden: ## record all answers of test scripts anew; read the difference
	UPDATE=1 $(GO) test ./... ; git diff --stat -- '*testdata*'

.PHONY: race
race: ## all tests twice, shuffled, with the race detector
	$(GO) test -race -shuffle=on -count=2 ./...

.PHONY: 386
386: ## the pure half's tests where an int has 32 bits
	GOARCH=386 CGO_ENABLED=0 POSTHASTE_RUNS=10 $(GO) test -vet=off -short $(PURE)
	GOARCH=386 CGO_ENABLED=0 $(GO) test -vet=off -short ./sim -run TestFingerprintOnEveryMachine

.PHONY: platforms
platforms: ## build everything for other operating systems
	GOOS=windows $(GO) build ./...
	GOOS=darwin $(GO) build ./...
	GOOS=freebsd $(GO) build ./...

# arm64 fuses floating-point products into sums, which amd64 does not.
.PHONY: arm64
arm64: ## the arithmetic of the pure half on arm64
	test/arm64/run

.PHONY: fuzz
fuzz: ## every fuzz target for T=20s each
	test/fuzz/run $(T)

.PHONY: bench
bench: ## the benchmarks of all packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

# These need the whole program, and some of them other programs. Each is a
# script, test/NAME/run, whose first lines say what it does and needs.
.PHONY: cluster-store ui-test packages release extensions metrics counts crash descriptors tls authentication exhaust interop journey relays lookalikes walk backlog steps demo
crash: ## kill -9 the program at random moments and count every message
	test/crash/run
counts: ## kill -9 the program at random moments and recount what quotas count
	test/counts/run
descriptors: ## 2,100 clients at once, with few file descriptors
	test/descriptors/run
tls: ## probe the listeners with openssl s_client
	test/tls/run
authentication: ## log in with swaks, msmtp, curl, smtplib, nodemailer and gsasl
	test/authentication/run
exhaust: ## take away all inodes, then all space, of the queue directory under load
	test/exhaust/run
interop: ## exchange mail with other mail servers; COUNT=10000 for the full count
	test/interop/run
journey: ## a message from a login to a receiver with DANE, and other TLS policies
	test/journey/run
relays: ## log in to Postfix, Exim; have Exim and OpenSMTPD log in
	test/relays/run
lookalikes: ## compare postqueue, postsuper, postcat and others with those of a real Postfix
	test/lookalikes/run
walk: ## the first hour of a new administrator, from importing a configuration of Postfix
	test/walk/run
extensions: ## deadlines to and from Sendmail, smtplib with rare extensions, rspamd as a milter
	test/extensions/run
cluster-store: ## the store of a cluster on three nodes, some of them down, and a stalled connection
	POSTHASTE_CLUSTER=1 $(GO) test -count=1 -v ./cluster/nats -run 'TestThreeNodes|TestStalledConnection'
backlog: ## memory and restart time with a million deferred messages
	test/backlog/run
receivers: ## what hostile, dead and unreliable receivers cost other mail
	test/receivers/run
metrics: ## have promtool read a scrape and try the alert rules
	test/metrics/run
ui-test: ## click through the dashboard in Chromium
	test/ui/run
.PHONY: picture
picture: ## take the picture of the dashboard for the documents
	test/ui/run picture
steps: ## count what the core does for each of few and of many recipients
	test/steps/run
packages: ## make the packages of a release twice, and install, upgrade and remove them
	test/packages/run
release: ## make the packages of a release in dist/
	packaging/release
demo: ## start the program against a good, a slow and a limited receiver
	test/demo/run
