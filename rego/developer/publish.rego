# METADATA
# title: Publishing
# description: Asks before something becomes public. What others have fetched cannot be taken back.
package sandboxd.policies.developer.publish

import data.sandboxd.lib

# METADATA
# title: Package published
# description: Building, packing and dry runs pass.
# custom:
#   match:
#     - npm publish
#     - npm --registry http://x publish --access public
#     - cargo publish -p core
#     - twine upload dist/a.whl
#     - python3 -m twine upload dist/a.whl
#     - gem push a.gem
#     - docker push a/b:1
#     - gh release create v1
#     - poetry publish --build
#     - uv publish
#     - helm push a.tgz oci://x
#   not_match:
#     - npm publish --dry-run
#     - npm pack
#     - cargo build
#     - docker pull a/b
#     - gh release list
#     - npm run publish
findings contains {
	"id": "developer.publish.package",
	"effect": "ask",
	"message": sprintf("%s publishes a package", [concat(" ", array.slice(command.argv, 0, 3))]),
	"hint": "a dry run passes without asking",
	"subject": command.id,
} if {
	some prefix in input.starts
	prefix in lib.publishing
	some command in input.commands
	lib.publishes(command)
}
