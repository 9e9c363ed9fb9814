package sandbox

import (
	"os"
	"os/exec"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestX39_CachesAreUsedAgain: the package managers of developers write their caches
// and find them in the next call. What the first one took them from is gone by then.
// pip is run by the interpreter itself: a shim of pyenv fails after the work is done,
// for it wants to write where it lies. A program that this host lacks is skipped; Go's is in TestX39_RealWorkInside.
func TestX39_CachesAreUsedAgain(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		home := os.Getenv("HOME")
		for _, tt := range []struct{ name, needs, first, second, want string }{
			{
				"npm installs a package whose tarball is gone", "npm",
				`mkdir dep app; printf '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json; echo 'module.exports=42' > dep/i.js
(cd dep; npm pack --silent --pack-destination ..); cd app; printf '{"name":"app","version":"1.0.0"}' > package.json
npm install --silent --offline ../dep-1.0.0.tgz; rm -r node_modules ../dep ../dep-1.0.0.tgz`,
				`cd app; npm ci --silent --offline >/dev/null; node -e 'console.log(require("dep"))'`, "42\n",
			},
			{
				"pip builds a wheel once", "python3 -m pip",
				`mkdir mod-1.0; cd mod-1.0
printf '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n' > pyproject.toml
printf 'Metadata-Version: 2.1\nName: mod\nVersion: 1.0\n' > PKG-INFO
cat > backend.py <<'X'
import os, zipfile
def build_wheel(dir, config=None, metadata=None):
    open(os.environ["BUILDS"], "a").write("built\n")
    with zipfile.ZipFile(os.path.join(dir, "mod-1.0-py3-none-any.whl"), "w") as z:
        z.writestr("mod.py", "answer = 42\n")
        for name, text in ("METADATA", open("PKG-INFO").read()), ("WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), ("RECORD", ""):
            z.writestr("mod-1.0.dist-info/" + name, text)
    return "mod-1.0-py3-none-any.whl"
X
cd ..; tar czf mod-1.0.tar.gz mod-1.0; rm -r mod-1.0
export BUILDS=$PWD/builds; $(python3 -c "import sys; print(sys.executable)") -m pip install -q --no-index --no-deps --target one "mod @ file://$PWD/mod-1.0.tar.gz" 2>pip.log || { cat pip.log; exit 1; }`,
				`export BUILDS=$PWD/builds; $(python3 -c "import sys; print(sys.executable)") -m pip install -q --no-index --no-deps --target two "mod @ file://$PWD/mod-1.0.tar.gz" 2>pip.log || { cat pip.log; exit 1; }
cat builds; PYTHONPATH=two python3 -c 'import mod; print(mod.answer)'`, "built\n42\n",
			},
			{
				"cargo builds with a repository that is gone", "cargo",
				`cargo new -q --lib --vcs none dep; cd dep; git init -q; git config user.email a@b; git config user.name n; git add .; git commit -qm x; cd ..
cargo new -q --vcs none app; echo "dep = { git = \"file://$PWD/dep\" }" >> app/Cargo.toml; echo 'fn main() { println!("{}", dep::add(40, 2)) }' > app/src/main.rs
cd app; cargo build -q; rm -rf target ../dep`,
				`cd app; cargo run -q`, "42\n",
			},
		} {
			t.Run(tt.name, func(t *testing.T) {
				if os.Getuid() == 0 && tt.needs != "cargo" { // which root often has for itself
					tier.Long(t, "the other user shows it")
				}
				if err := exec.Command("sh", "-c", tt.needs+" --version").Run(); err != nil {
					needs.Elsewhere(t, "%s does not run for uid %d outside either: %v", tt.needs, os.Getuid(), err)
				}
				cage := newCage(t, Options{})
				needCage(t, cage)
				ws := shortTemp(t)
				box := newBox(t, cage, "strict", guard.DefaultSettings(ws, home, nil))
				if e, out := runIn(t, box, ws, "bash", "-ec", tt.first); e.Code != 0 {
					t.Fatalf("the first call: exit %d %s, output %q", e.Code, e.Signal, out)
				}
				if e, out := runIn(t, box, ws, "bash", "-ec", tt.second); e.Code != 0 || out != tt.want {
					t.Errorf("the second call: exit %d %s, output %q, want %q", e.Code, e.Signal, out, tt.want)
				}
			})
		}
	})
}
