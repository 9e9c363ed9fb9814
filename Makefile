# make run     build, start a daemon here and print what to try; nothing is served before it is allowed
# make test    nearly every behaviour once, the same each time: one seed, few rounds
# make race    the race detector over packages whose goroutines share memory
# make long    what takes hours, or chance, part by part; make long kills fuzz: these parts (see tests/long)
# make test-clients  real clients: a day of each other agent with the hook, one made from docs/openapi.json,
#              and GitHub's and cargo with tokens that they never hold
# make test-mcp-servers  a day with three MCP servers of the npm registry, in their cages
# make test-lsp  gopls in its cage, through a daemon
# make test-scopes-client  a day of the public client of the five-scope API, from its repository
# make test-operate  installations: real users, and systemd as process 1 of a namespace; as root
# make test-postgres  what keeps state that daemons share, and the integration tests, over PostgreSQL
# make test-web  the page in a real browser
# make bench-web  how fast the page is, and what it costs at rest
# make bench   measured ratios beside those of tests/bench/baseline.json
# make fuzz    every fuzz target for FUZZTIME each (make fuzz FUZZTIME=2000x)
# make suites  what other tools, and we, expect of five thousand lines, and what is judged otherwise
# make lint    format, vet, staticcheck, dead code
# make build   bin/sandboxd, bin/sandboxd-child and bin/sandboxd-agent
# make install    into PREFIX: /usr/local for root, ~/.local for others
# make uninstall  removes what make install has put there
# make generate  every committed file that is made from the code
# make man     the man pages, into bin/man

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOFUMPT     = go run mvdan.cc/gofumpt@v0.12.0
STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    = go run golang.org/x/tools/cmd/deadcode@v0.52.0
# What the gate does not know is a failure, never tried again. -count=1: an answer from another
# clone's cache would count as a run.
GOTESTSUM = go run gotest.tools/gotestsum@v1.13.0 --format pkgname-and-test-fails --hide-summary=skipped,output
GATE = -trimpath -vet=off -count=1 -p 3 -parallel 2 -timeout 20m
# Builds, tests and the programs that tests build are compiled alike, so that what one has compiled is
# there for the others, in another clone too. The race detector alone needs a C compiler.
export CGO_ENABLED = 0
# As in the daemon: tests, and the linker of their programs, trade memory for time.
export GOGC ?= 300
# Properties get their seed here, other random tests from package tier. What one run has found is no
# part of the next.
export RAPID_SEED = $(or $(SEED),1)
export RAPID_NOFAILFILE = 1
FUZZTIME ?= 100000x
LDFLAGS = -s -w -X main.version=$(VERSION)

.PHONY: run build install uninstall suites test test-lsp race long test-postgres test-operate test-clients test-mcp-servers test-scopes-client tools-clients test-web bench-web tools-web bench lint format generate man fuzz tools-go tools-run tools-test tools-operate tools-bench clean

# make long PART…: see tests/long. What follows long are its parts: some of them have the names of targets.
ifeq (long,$(firstword $(MAKECMDGOALS)))
PARTS = $(wordlist 2,99,$(MAKECMDGOALS))
.PHONY: $(PARTS)
long:
	@$(MAKE) --no-print-directory tools-go tools-test bin/opa
	@tests/long $(PARTS)
$(PARTS): long ; @:
else

run: tools-run build
	./bin/sandboxd serve

# The first build compiles OPA and takes minutes: packages are named on a terminal.
build: tools-go
	go build $(if $(MAKE_TERMERR),-v) -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/sandboxd ./cmd/sandboxd-child
	go build -C agent -trimpath -ldflags '$(LDFLAGS)' -o ../bin/ ./cmd/sandboxd-agent

# Root installs what is built: a build by root would leave files of root here.
ROOT = $(filter 0,$(shell id -u))
PREFIX ?= $(if $(ROOT),/usr/local,$(HOME)/.local)
install: $(if $(ROOT),bin/sandboxd,build)
	deploy/install '$(PREFIX)' '$(CURDIR)/bin'

bin/sandboxd:
	$(MAKE) build

uninstall:
	deploy/install --remove '$(PREFIX)'

# They begin first, so that none is left to run alone at the end.
LONGEST = ./tests/integration ./tests/attack ./sandbox ./policy
# Each run writes what happened, then the report says it and judges: a pipe would lose the exit status.
test: export SANDBOXD_OPA = $(CURDIR)/bin/opa
test: export SANDBOXD_TEST_PROGRAMS = $(CURDIR)/bin/tested
test: tools-go tools-test bin/opa
	@mkdir -p bin && rm -rf bin/test-*.json bin/tested; status=0; unset LONG ROUNDS RAPID_CHECKS SANDBOXD_TEST_STORE; \
	go build -trimpath -ldflags '-s -w' -o bin/tested/ ./cmd/sandboxd ./cmd/sandboxd-child && \
	go build -C agent -trimpath -ldflags '-s -w' -o ../bin/tested/ ./cmd/sandboxd-agent || exit 1; \
	(cd agent && exec ../tests/in-memory $(GOTESTSUM) --jsonfile '$(CURDIR)/bin/test-agent.json' -- $(GATE) ./...) & agent=$$!; \
	tests/in-memory $(GOTESTSUM) --jsonfile '$(CURDIR)/bin/test-main.json' -- $(GATE) $(LONGEST) ./... || status=1; \
	wait $$agent || status=1; \
	go run ./tests/report bin/test-main.json bin/test-agent.json || status=1; exit $$status

# The detector sees one process: packages whose tests start programs show nothing here.
RACE = $(addprefix ./,approvals client hooks metrics pipeline shellparse internal/api internal/budget internal/cron internal/events internal/jobs internal/mcp/frame internal/mcp/serve internal/output internal/sessions internal/store internal/textcall internal/tool internal/tools internal/tools/search internal/tools/web internal/vars internal/web)
race: tools-go tools-test
	@mkdir -p bin && rm -f bin/race.json; status=0; unset LONG ROUNDS RAPID_CHECKS SANDBOXD_TEST_STORE; \
	CGO_ENABLED=1 tests/in-memory $(GOTESTSUM) --jsonfile '$(CURDIR)/bin/race.json' -- -race $(GATE) $(RACE) || status=1; \
	go run ./tests/report -slowest 10 bin/race.json || status=1; exit $$status

# The tests of what daemons share pass over both databases: these run them over PostgreSQL again.
test-postgres: tools-go tools-test
	SANDBOXD_TEST_STORE=postgres go test -count=1 -timeout 30m ./internal/store/... ./internal/sessions \
		./internal/vars ./internal/scopes ./internal/team ./internal/mcp/kept ./hooks ./approvals ./tests/integration

test-operate: tools-go tools-operate
	OPERATE_SYSTEMD=1 go test -count=1 -v -timeout 30m ./tests/operate

# The program of OPA, of the version that the daemon judges with; SANDBOXD_OPA names
# it to the tests.
bin/opa: go.mod
	GOBIN='$(CURDIR)/bin' go install github.com/open-policy-agent/opa@$$(go list -m -f '{{.Version}}' github.com/open-policy-agent/opa)
	@touch $@

# The clients are installed below bin/, in the versions of their tables; what they are then
# given is loopback alone.
CLIENTS = $(shell sed -n 's/^package \(.*\) \(.*\)/\1@\2/p' internal/clients/*.txt) \
	$(shell sed -n 's,^package @google/gemini-cli \(.*\),@google/gemini-cli-core@\1,p' internal/clients/gemini.txt)
OPENAPI_TOOLS = @redocly/cli@2.77.0 openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 undici@6.29.1 @types/node@20.19.43
# The conformance suite and the inspector of MCP need a newer Node than most hosts have.
MCP_TOOLS = $(addprefix @modelcontextprotocol/,conformance@0.2.0-alpha.12 inspector@2.12.0) node@24.21.0
test-clients: tools-go tools-clients bin/gh
	npm install --silent --no-audit --no-fund --prefix bin/clients $(CLIENTS) $(OPENAPI_TOOLS) $(MCP_TOOLS)
	SANDBOXD_TEST_NPM='$(CURDIR)/bin/clients/node_modules' SANDBOXD_TEST_GH='$(CURDIR)/bin/gh' \
	go test -count=1 -v -run 'DayAndGeneratedTools|TestOpenAPI_ATypedClientWorks|TestM24_TheConformanceSuite|TestM24_TheInspector|TestM24_ClaudeCode|WithoutAToken|HasNoToken' ./tests/integration

# The page in a browser: Debian's, or the one that CHROMIUM names.
test-web: tools-go tools-web build
	npm ci --silent --no-audit --no-fund --prefix tests/web
	SANDBOXD_BIN='$(CURDIR)/bin' CHROMIUM="$${CHROMIUM:-$$(command -v chromium)}" SANDBOXD_SHOTS='$(SHOTS)' \
	timeout 600 node --test --test-concurrency=1 --test-reporter=spec tests/web

bench-web: tools-go tools-web build
	npm ci --silent --no-audit --no-fund --prefix tests/web
	SANDBOXD_BIN='$(CURDIR)/bin' CHROMIUM="$${CHROMIUM:-$$(command -v chromium)}" \
	timeout 900 node --test-reporter=spec tests/web/measure.mjs

# GitHub's client, built in its own module; its server is one of the test.
bin/gh:
	go build -C "$$(go mod download -json github.com/cli/cli/v2@v2.83.0 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')" \
		-trimpath -o '$(CURDIR)/bin/gh' ./cmd/gh

# Three MCP servers of others, in their cages.
MCP_SERVERS = $(foreach s,everything filesystem memory,@modelcontextprotocol/server-$(s)@2026.8.31)
test-mcp-servers: tools-go tools-clients
	npm install --silent --no-audit --no-fund --prefix bin/mcp-servers $(MCP_SERVERS)
	SANDBOXD_TEST_NPM='$(CURDIR)/bin/mcp-servers/node_modules' go test -count=1 -v -run ADayWithServersOfTheRegistry ./tests/integration

# The language server of Go, in the last version for the go of go.mod.
GOPLS = golang.org/x/tools/gopls@v0.21.1
test-lsp: tools-go
	GOBIN='$(CURDIR)/bin' go install $(GOPLS)
	SANDBOXD_TEST_GOPLS='$(CURDIR)/bin/gopls' go test -count=1 -v -run TestT52_RealGopls ./tests/integration

# The public client of the five-scope API is in no registry: it is fetched at one commit, and bundled.
SCOPES_CLIENT = https://github.com/Youzini-afk/TavernHeadless
SCOPES_COMMIT = fe5671c40ddd1d775f4571f69f47a1fe81f2acbd
SCOPES_DIR = bin/scopes-client
KIT = packages/official-integration-kit
test-scopes-client: tools-go tools-clients
	test -d $(SCOPES_DIR) || git clone --quiet --no-checkout $(SCOPES_CLIENT) $(SCOPES_DIR)
	git -C $(SCOPES_DIR) checkout --quiet $(SCOPES_COMMIT)
	npm install --silent --no-audit --no-fund --no-save --prefix $(SCOPES_DIR)/packages/shared esbuild@0.28.2 zod@3.25.76
	cd $(SCOPES_DIR) && for package in sdk client-helpers; do packages/shared/node_modules/.bin/esbuild $(KIT)/$$package/src/index.ts \
		--bundle --format=esm --platform=node --log-level=warning --outfile=$$package.mjs \
		--alias:@tavern/shared=./packages/shared/src/index.ts --alias:@tavern/sdk=./$(KIT)/sdk/src/index.ts || exit 1; done
	SANDBOXD_TEST_SCOPES_CLIENT='$(CURDIR)/$(SCOPES_DIR)' go test -count=1 -v -run ADayOfThePublicClient ./tests/integration

suites: tools-test
	LONG=1 go test -count=1 -v -run Suites_ ./internal/daemon

# One package after the other; the limits are judged from all results at the end.
BENCH ?= .
bench: tools-bench build
	@rm -f bin/bench.jsonl
	-SANDBOXD_BENCH_OUT='$(CURDIR)/bin/bench.jsonl' go test -p 1 -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 60m ./...
	-SANDBOXD_BENCH_OUT='$(CURDIR)/bin/bench.jsonl' go test -C agent -p 1 -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 60m ./...
	@go run ./tests/bench/report -baseline tests/bench/baseline.json bin/bench.jsonl

lint: export GOFLAGS = -trimpath
lint:
	@files=$$(git ls-files '*.go') && [ -n "$$files" ] || exit 1; unformatted=$$($(GOFUMPT) -l $$files) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make format):"; echo "$$unformatted"; exit 1; fi
	@for module in . agent; do (cd $$module && go vet ./... && $(STATICCHECK) ./...) || exit 1; done
	@dead=$$($(DEADCODE) -filter '$(LIVE)' ./... && cd agent && $(DEADCODE) -filter '/sandboxd/agent/' ./...) || exit 1; \
	dead=$$(echo "$$dead" | sed '/^internal\/flaky\//d'); \
	if [ -n "$$dead" ]; then echo "no program reaches this:"; echo "$$dead"; exit 1; fi

# What the programs do not reach is dead, also if its own tests use it. Left out is what is for
# tests alone: tests/, internal/flaky, and packages whose name ends in "test".
LIVE = ^github.com/sandboxd/sandboxd/[^t].*([^t]|[^s]t|[^e]st|[^t]est)$$

format:
	$(GOFUMPT) -w $$(git ls-files '*.go')

# Every fuzz target below FUZZ, for FUZZTIME each: inputs, and no seconds, since a worker
# that is busy when seconds end is a failure to Go 1.26 (https://go.dev/issue/75804). What
# one finds lands in testdata/fuzz of its package: commit it with the mend.
FUZZ ?=
fuzz:
	@targets=$$(git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '$(FUZZ)*_test.go') || { echo "no fuzz target" >&2; exit 1; }; \
	echo "$$targets" | while IFS=: read -r file name; do \
		echo "fuzz $${file%/*} $${name#func }"; \
		case $$file in agent/*) module=agent;; *) module=.;; esac; package=./$${file%/*}; \
		go test -C $$module -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1000x \
			"./$${package#./agent/}" </dev/null || exit 1; done

# Documents, tables and goldens that are made from the code. Tests hold them against
# the code; the packages of these tests import tests/golden, whose flag writes.
GOLDEN = {{range .TestImports}}{{if eq . "github.com/sandboxd/sandboxd/tests/golden"}}{{$$.ImportPath}} {{end}}{{end}}{{range .XTestImports}}{{if eq . "github.com/sandboxd/sandboxd/tests/golden"}}{{$$.ImportPath}} {{end}}{{end}}
generate: tools-test
	go test $(GATE) -run Generated $$(go list -f '$(GOLDEN)' ./...) -args -update
	go test -C agent $(GATE) -run Generated ./integration -args -update

man:
	go run ./cmd/sandboxd docs man bin/man

# The version of go.mod; an older go fetches it by itself.
tools-go:
	@command -v go >/dev/null || { echo "sandboxd: error: go is not installed" >&2; \
	echo "sandboxd: hint: install Go $$(sed -n 's/^go //p' go.mod) or newer from https://go.dev/dl/ and put its bin directory on PATH" >&2; exit 1; }

# Packages of the system: what must be there, then what only some of it needs.
tools-run:
	@deploy/need 'git' 'curl ripgrep'
tools-test:
	@deploy/need 'git curl gcc libc6-dev' 'ripgrep bubblewrap tmux patch perl python3 unzip procps postgresql sqlite3'
tools-operate:
	@deploy/need 'git curl passwd procps' 'systemd'
tools-clients:
	@deploy/need 'git curl npm' ''
tools-web:
	@deploy/need "git curl npm $${CHROMIUM:-chromium}" ''
tools-bench:
	@deploy/need 'git' 'ripgrep bubblewrap firejail'

clean:
	rm -rf bin

endif
