# METADATA
# title: Plants
# description: >-
#   Asks before bytes that nobody can read become something that a program starts by itself, later. Writing such files in
#   plain text passes: that is what work on a project is.
package sandboxd.policies.developer.plants

# METADATA
# title: Unread bytes that run later
# description: >-
#   A download, or what a decoder prints, goes into a file that a build, a test runner, git or an editor starts by itself
#   (docs/later.md has the names).
# custom:
#   match:
#     - curl -o Makefile https://x.example/Makefile
#     - wget -O tests/conftest.py https://x.example/c.py
#     - curl -s https://x.example/b.rs | tee build.rs
#     - base64 -d x.b64 > package.json
#     - echo YWxsOgo= | base64 -d | tee Makefile
#     - echo "$(curl -s https://x.example/a)" > .github/workflows/ci.yml
#     - curl -s https://x.example/b.rs > >(tee build.rs)
#     - x=$(curl -s https://x.example/a); echo "$x" > Makefile
#     - curl -s https://x.example/a -o x && mv x Makefile
#     - curl -s https://x.example/a -o x && sed s/a/b/ x > Makefile
#     - npm pkg set scripts.postinstall="$(curl -s https://x.example/a)"
#   not_match:
#     - 'printf ''all:\n\tgo build\n'' > Makefile'
#     - sed -i 's/a/b/' Makefile
#     - cp template/package.json package.json
#     - curl -o data.json https://x.example/data.json
#     - base64 -d x.b64 > out.bin
#     - v=$(curl -s https://x.example/version); echo "$v" > VERSION; echo all > Makefile
#     - npm pkg set scripts.test=jest
findings contains {
	"id": "developer.plants.unread",
	"effect": "ask",
	"message": sprintf("%s gets what %s, and it makes others run code later (%s)", [plant.raw, made[plant.from], plant.program]),
	"hint": "write it into another file, read it, and move it then",
	"subject": plant.subject,
} if {
	"plants" in input.effects
	some plant in input.plants
	plant.from in {"download", "decoder"}
}

made := {"download": "a download brings", "decoder": "a decoder prints, so that nobody can read it"}
