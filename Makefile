# Every verb is one script or one command; .ci/run calls the same ones.

GO ?= go

.PHONY: build test deep race lint e2e page chart monitoring exe servers-exe windows test-windows conformance mutants model torture hostile path fuzz bench update release image reproduce verify help

build: ## programs of this machine into bin/
	$(GO) build -o bin/ ./cmd/...

test: ## all tests of the root module, with the race detector, in two minutes
	@hack/test.sh

deep: ## what test plays a part of: every draw, order, flood and size
	@hack/deep.sh

race: ## the tests many times in random order, to shake out races
	$(GO) test -race -shuffle=on -count=$(or $(COUNT),5) ./...

lint: ## golangci-lint for linux and windows, actionlint for the workflows
	@hack/lint.sh

e2e: ## against a real kube-apiserver and etcd
	@hack/e2e.sh

conformance: ## the official suite of ClusterNetworkPolicy, unmodified
	@hack/conformance.sh

page: ## kubectl npm ui, in a real Chromium
	@hack/page.sh

chart: ## the chart for Helm, and what kustomize builds: both must give the same objects
	@hack/chart.sh

monitoring: ## the alerts and the dashboard, with the parsers of Prometheus
	@hack/monitoring.sh

exe: ## npm.exe and what else docs/windows.md runs on a node, into bin/
	@hack/exe.sh

servers-exe: ## an API server for Windows, for the tests of the agent on a node, into bin/
	@hack/servers-exe.sh

windows: ## build, vet and compile the tests for Windows
	@hack/windows.sh

test-windows: ## npm.exe and the doctor under Wine, against a stand-in for HNS
	@hack/test-windows.sh

mutants: ## break the code on purpose; every mutant must be caught
	@$(GO) run ./test/mutants

model: ## Spin checks the model of the transaction, and that its mutants fail
	@hack/model.sh

torture: ## every scenario, disturbed at every call of HNS, in every order
	@hack/torture.sh

hostile: ## attacks of one tenant on the agent, in all sizes
	@hack/hostile.sh

path: ## count the functions that one event runs in the agent (LIST=1 prints them)
	@hack/path.sh

fuzz: ## every fuzz target for a short time (FUZZTIME, default 20s)
	@hack/fuzz.sh

bench: ## every benchmark once (BENCHTIME=3x COUNT=5 OUT=file to measure)
	@hack/bench.sh

update: ## write the golden files anew
	@hack/update.sh

release: ## what a release has, into OUT (dist): VERSION=v0.1.0
	@hack/release.sh "$(VERSION)" $(OUT)

image: ## the image for nodes, no daemon needed: TO=REGISTRY/NAME:TAG or TO=FILE.tar (PROGRAMS=dist)
	@PROGRAMS="$(PROGRAMS)" VERSION="$(VERSION)" hack/image.sh "$(TO)"

reproduce: ## build a part of a release twice, in two folders: both must be equal
	@hack/reproduce.sh

verify: ## formatted, tidy, and (with CI=true) nothing changed in the tree
	@hack/verify.sh

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-13s %s\n", $$1, $$2 }' Makefile
