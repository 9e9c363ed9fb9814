# METADATA
# title: Deletion
# description: >-
#   Asks before trees or many files go that nothing makes again. What is deleted is a fact, so that rm, find, xargs,
#   loops, archivers that move, and other spellings are one thing.
package sandboxd.policies.developer.deletes

# METADATA
# title: Tree deleted
# description: >-
#   A recursive delete of what a repository may track. Trees that tools make again (node_modules, build, …) and of which git
#   tracks nothing, temporary directories and single files pass. A tree that the same line has renamed counts by its first name.
# custom:
#   match:
#     - rm -rf src
#     - rm -fr ./src
#     - rm --recu --force src
#     - rm -r -f -- src
#     - rm -rf .
#     - rm -rf node_modules src
#     - sudo rm -Rf src
#     - mv src build && rm -rf build
#     - find . -name '*.go' -delete
#     - find src -type f -exec rm -f {} +
#     - tar --remove-files -cf /tmp/x.tar src
#     - npx rimraf src
#     - git ls-files | xargs rm
#     - rsync -a --delete empty/ src/
#   not_match:
#     - rm -rf node_modules
#     - rsync -a --delete src/ dist/
#     - rm -rf ./build dist/
#     - rm -rf dist/* web/.next/cache
#     - rm -rf "$TMPDIR/x"
#     - rm -rf /tmp/work/x
#     - rm a.go
#     - rm -f a.go
#     - find . -name '*.pyc' -delete
#     - find . -name __pycache__ -exec rm -rf {} +
#     - find . -name '*.go'
#     - find . -name -delete
findings contains {
	"id": "developer.files.delete_tree",
	"effect": "ask",
	"undoable": true,
	"message": sprintf("%s deletes %s with all below it, which is %s", [command.name, gone.raw, kind(gone)]),
	"hint": "name single files, or delete build output only",
	"subject": command.id,
} if {
	"deletes" in input.effects
	some command in input.commands
	some gone in command.deletes
	gone.tree
	count(gone.to) == 0
	not disposable(gone)
}

kind(gone) := "partly tracked by git" if gone.tracked

kind(gone) := "not known to be build output" if not gone.tracked

# METADATA
# title: Many files deleted
# description: A pattern, a list, a loop or a search deletes. Object files, logs and other output pass by their names.
# custom:
#   match:
#     - rm -f src/*.go
#     - rm a.go b.go c.go d.go
#     - for f in src/*; do rm -f "$f"; done
#     - o=$(echo -rf); rm $o src
#     - truncate -s 0 src/*.go
#   not_match:
#     - rm -f *.o *.log
#     - rm a.go b.go
#     - rm -f "$lock"
#     - rm -f $STAMP
#     - rm -f build/*
findings contains {
	"id": "developer.files.delete_many",
	"effect": "ask",
	"undoable": true,
	"message": sprintf("%s deletes many files: %s", [command.name, gone.raw]),
	"hint": "name the files, three at most, or delete build output only",
	"subject": command.id,
} if {
	"deletes" in input.effects
	some command in input.commands
	some gone in command.deletes
	gone.many
	not gone.tree
	count(gone.to) == 0
	not one_of_outside(gone)
	not disposable(gone)
}

# METADATA
# title: Renamed to build output
# description: >-
#   Under a name that tools make again, or below /tmp, a tree would be deleted without a question, in a later call or when
#   the session ends.
# custom:
#   match:
#     - mv src node_modules
#     - mv src /tmp/old
#     - mv -t build src
#   not_match:
#     - mv a.go b.go
#     - mv src lib
#     - mv out build
#     - mv a.tar.gz dist/
findings contains {
	"id": "developer.files.renamed",
	"effect": "ask",
	"message": sprintf("%s gives %s the name of build output, which is deleted without a question", [command.name, gone.raw]),
	"hint": "choose another name",
	"subject": command.id,
} if {
	"moves" in input.effects
	some command in input.commands
	some gone in command.deletes
	passing(gone.to)
	gone.tree
	gone.in_workspace
	not disposable(gone)
	not contains(gone.below[count(gone.below) - 1], ".")
}

# METADATA
# title: File hidden
# description: >-
#   A single file of which git has no copy gets a place where things are deleted without a question. Archives and other output pass.
findings contains {
	"id": "developer.files.hidden",
	"effect": "ask",
	"message": sprintf("%s puts %s where files are deleted without a question, and git has no copy of it", [command.name, gone.raw]),
	"hint": "git add it first, or choose another place",
	"subject": command.id,
} if {
	"moves" in input.effects
	some command in input.commands
	some gone in command.deletes
	gone.unsaved
	fleeting(gone.to)
	not passes(gone)
}

# fleeting is true for what lies in build output or below /tmp.
fleeting(segments) if {
	segments[0] == "tmp"
	not in_root(segments)
}

fleeting(segments) if {
	some root in input.settings.workspace_roots
	some segment in below_root(root, segments)
	segment in regenerated
}

in_root(segments) if {
	some root in input.settings.workspace_roots
	below_root(root, segments)
}

below_root(root, segments) := array.slice(segments, count(above), count(segments)) if {
	not root in {"/tmp", "/var/tmp", "/dev/shm"}
	above := split(trim(root, "/"), "/")
	array.slice(segments, 0, count(above)) == above
}

# passes is true for a single file that is no loss: what tools make again, tracked or not, and temporary files.
passes(gone) if made_again(gone)

passes(gone) if temporary(gone)

passes(gone) if gone.below[count(gone.below) - 1] in locks

# one_of_outside is true for a variable that who started the shell has set: a Makefile, a person.
one_of_outside(gone) if {
	gone.outside
	not regex.match(`[*?{]`, trim_prefix(gone.raw, "${"))
}

passing(segments) if segments[count(segments) - 1] in regenerated

passing(segments) if {
	segments[0] == "tmp"
	not in_root(segments)
}

# What can be deleted without a loss.

# by what it was before the line renamed it
disposable(gone) if {
	count(gone.was) == 0
	not gone.tracked
	made_again(gone)
}

disposable(gone) if {
	count(gone.was) == 0
	temporary(gone)
}

# what an installation writes again
disposable(gone) if {
	count(gone.was) == 0
	gone.below[count(gone.below) - 1] in locks
}

locks := {
	"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "Cargo.lock",
	"poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "Gemfile.lock", "composer.lock", "go.sum", "flake.lock",
}

disposable(gone) if {
	count(gone.was) > 0
	some segment in gone.was
	segment in regenerated
}

made_again(gone) if {
	some segment in gone.below
	segment in regenerated
}

made_again(gone) if {
	count(gone.names) > 0
	every name in gone.names {
		output(name)
	}
}

made_again(gone) if output(gone.below[count(gone.below) - 1])

temporary(gone) if {
	not gone.in_workspace
	some prefix in {"/tmp/", "/var/tmp/", "/dev/shm/"}
	startswith(concat("", [gone.path, "/"]), prefix)
}

# of what is only known when it runs, the last name
made_again(gone) if {
	gone.path == ""
	parts := split(trim(gone.raw, "\"'/*"), "/")
	not ".." in parts
	parts[count(parts) - 1] in regenerated
	count(parts) > 1
}

temporary(gone) if {
	gone.path == ""
	gone.outside
	some prefix in {"$TMPDIR/", "${TMPDIR}/", "$TMP/", "$TEMP/", "$RUNNER_TEMP/", "${RUNNER_TEMP}/"}
	startswith(concat("", [replace(gone.raw, "\"", ""), "/"]), prefix)
	not contains(gone.raw, "..")
}

# output is true for names, and patterns of names, that tools write.
output(name) if name in regenerated

output(name) if strings.any_suffix_match(name, {
	".o", ".a", ".so", ".lo", ".la", ".ko", ".d", ".obj", ".exe", ".dll", ".dylib", ".lib", ".pdb", ".class", ".jar", ".war", ".pyc",
	".pyo", ".pyd", ".beam", ".hi", ".cmi", ".cmo", ".cmx", ".elc", ".rlib", ".rmeta", ".wasm", ".map", ".tsbuildinfo", ".log", ".tmp",
	".temp", ".bak", ".orig", ".rej", ".swp", ".swo", "~", ".pid", ".lock~", ".gcda", ".gcno", ".gcov", ".prof", ".pprof",
	".cover", ".coverprofile", ".coverage", ".trace", ".out", ".test", ".egg-info", ".dist-info", ".egg", ".whl", ".tgz", ".tar.gz",
	".tar.xz", ".tar.bz2", ".zip", ".deb", ".rpm", ".apk", ".gem", ".crate", ".vsix", ".nupkg", ".snap", ".dmg", ".aux", ".toc", ".bbl",
	".blg", ".fls", ".fdb_latexmk", ".synctex.gz", ".DS_Store", ".stackdump", ".core", "core", ".min.js", ".min.css", ".img", ".iso", ".elf", ".hex",
	".bin", ".cache", ".done", ".stamp", ".timestamp", ".pb.go", "Thumbs.db", ".hprof", ".dSYM", "nohup.out", ".lcov", ".profraw", ".profdata",
})

# regenerated are directories that tools make again from what is tracked.
regenerated := {
	"node_modules", "bower_components", "jspm_packages", "dist", "build", "out", "target", "bin", "obj", "coverage", "htmlcov", "tmp", "temp",
	"public", "_site", "_build", "_output", "output", "outputs", "artifacts", "Debug", "Release",
	"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox", ".venv", "venv", ".eggs", ".hypothesis", ".ipynb_checkpoints",
	".cache", "cache", ".parcel-cache", ".next", ".nuxt", ".output", ".svelte-kit", ".astro", ".turbo", ".nx", ".gradle", ".terraform", "DerivedData",
	".nyc_output", ".angular", ".vite", ".vitepress", ".docusaurus", ".webpack", ".rollup.cache", ".swc", ".esbuild", ".serverless",
	".aws-sam", "cdk.out", ".dart_tool", ".stack-work", "dist-newstyle", ".bundle", "_book", "storybook-static", "test-results",
	"playwright-report", "test-output", "logs", "CMakeFiles", "cmake-build-debug", "cmake-build-release", "bazel-out",
	".bazel", "zig-cache", "zig-out", ".zig-cache", "nimcache", ".kitchen", ".molecule", ".vagrant", ".cargo-cache", ".pnpm-store",
	".yarn-cache", ".npm", ".sass-cache", ".jekyll-cache", ".hugo_cache", ".quarto", "_minted", "wheelhouse", "sdist",
	"lib-cov", "jacoco", "surefire-reports", "allure-results", "allure-report", "doctrees",
}
