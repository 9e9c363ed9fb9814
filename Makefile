# make run     build, serve this directory and print a first call to try
# make test    every test, with the race detector
# make test-clients  the adapter for other agents with a real client, offline
# make bench   measured ratios beside those of tests/bench/baseline.json
# make lint    format, vet, staticcheck
# make build   bin/sandboxd and bin/sandboxd-child
# make docs    docs/openapi.json, and the man pages into bin/man

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOFUMPT     = go run mvdan.cc/gofumpt@v0.12.0
STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 60s
LDFLAGS = -s -w -X main.version=$(VERSION)

.PHONY: run build test test-clients tools-clients bench lint format docs fuzz-shell tools-run tools-test tools-bench clean

run: tools-run build
	./bin/sandboxd serve

build:
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/sandboxd ./cmd/sandboxd-child

test: tools-test
	CGO_ENABLED=1 go test -race -timeout 15m ./...
	go test -run TestEveryRuleOfTheLibraryIsTested ./policy

# The client is installed below bin/; what it is then given is loopback alone.
CLAUDE_CODE ?= @anthropic-ai/claude-code@2.1.197
test-clients: tools-clients
	npm install --silent --no-audit --no-fund --prefix bin/clients $(CLAUDE_CODE)
	SANDBOXD_TEST_CLAUDE=$(CURDIR)/bin/clients/node_modules/.bin/claude go test -count=1 -v -run TestClaudeCode ./tests/integration

# One package after the other; the limits are judged from all results at the end.
BENCH ?= .
bench: tools-bench build
	@rm -f bin/bench.jsonl
	-SANDBOXD_BENCH_OUT=$(CURDIR)/bin/bench.jsonl go test -p 1 -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 60m ./...
	@go run ./tests/bench/report -baseline tests/bench/baseline.json bin/bench.jsonl

lint:
	@files=$$(git ls-files '*.go'); unformatted=$$($(GOFUMPT) -l $$files) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make format):"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(STATICCHECK) ./...

format:
	$(GOFUMPT) -w $$(git ls-files '*.go')

# The guard against real bash, then the parsers; one fuzzer at a time, since the
# go command takes no more.
SCRIPTS ?= 20000
fuzz-shell:
	SANDBOXD_FUZZ_SHELL=$(SCRIPTS) go test -run TestGuardAgainstBash -v -timeout 20m ./sandbox
	@for f in FuzzParse FuzzAwk FuzzSed; do \
		go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) ./shellparse || exit 1; done

docs:
	mkdir -p bin
	go run ./cmd/sandboxd docs openapi > bin/openapi.json && mv bin/openapi.json docs/openapi.json
	go run ./cmd/sandboxd docs man bin/man

# Packages of the system: what must be there, then what only some of it needs.
tools-run:
	@deploy/need 'git' 'curl ripgrep'
tools-test:
	@deploy/need 'git curl gcc libc6-dev' 'ripgrep bubblewrap tmux'
tools-clients:
	@deploy/need 'git curl npm' ''
tools-bench:
	@deploy/need 'git' 'ripgrep bubblewrap firejail'

clean:
	rm -rf bin
