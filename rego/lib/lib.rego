# METADATA
# title: Helpers
# description: What several rules ask of the input document.
package sandboxd.lib

# has_flag is true when the command has one of the flags.
has_flag(command, flags) if {
	some flag in command.flags
	flag in flags
}

# publishes is true when the command makes something public; a dry run does not.
publishes(command) if {
	some prefix in command.prefixes
	prefix in publishing
	not has_flag(command, {"--dry-run"})
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
