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
	some command in input.commands
	some prefix in command.prefixes
	prefix in publishing
	not lib.has_flag(command, {"--dry-run"})
}

publishing := {
	"npm publish", "npm unpublish", "npm deprecate", "pnpm publish", "yarn publish", "yarn npm publish", "bun publish",
	"lerna publish", "changeset publish", "cargo publish", "cargo yank", "twine upload", "flit publish", "poetry publish",
	"uv publish", "hatch publish", "pdm publish", "gem push", "gem yank", "docker push", "docker image push",
	"podman push", "buildah push", "skopeo copy", "crane push", "helm push", "gh release create", "gh release upload",
	"gh release delete", "goreleaser release", "mvn deploy", "gradle publish", "dotnet nuget push", "nuget push",
	"vsce publish", "ovsx publish", "wrangler deploy", "wrangler publish", "vercel deploy", "netlify deploy",
	"firebase deploy", "flyctl deploy", "fly deploy", "terraform apply", "terraform destroy", "kubectl delete",
	"helm uninstall", "gh repo delete", "gh repo edit", "aws s3 rb", "conan upload", "luarocks upload", "hex publish",
	"mix hex.publish", "dart pub publish", "flutter pub publish", "pod trunk push", "cpan-upload", "snapcraft upload",
}
