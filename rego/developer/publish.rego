# METADATA
# title: Publishing
# description: Asks before something becomes public. What others have fetched cannot be taken back.
package sandboxd.policies.developer.publish

# METADATA
# title: Package published
# description: Building, packing and dry runs pass. Tasks that publish are known by their names.
# custom:
#   match:
#     - npm publish
#     - npm --registry http://x publish --access public
#     - npm run release
#     - cargo publish -p core
#     - twine upload dist/a.whl
#     - python3 -m twine upload dist/a.whl
#     - gem push a.gem
#     - docker push a/b:1
#     - docker-compose push
#     - gh release create v1
#     - poetry publish --build
#     - uv publish
#     - helm push a.tgz oci://x
#     - ./gradlew publish
#     - ./mvnw -B deploy
#     - npx semantic-release
#     - make deploy
#     - make release
#     - tox -e release
#     - npx turbo run publish
#   not_match:
#     - npm publish --dry-run
#     - npm publish --help
#     - npm pack
#     - npm run build
#     - cargo build
#     - docker pull a/b
#     - gh release list
#     - goreleaser release --snapshot
#     - ./gradlew publishToMavenLocal
#     - make release-notes
findings contains {
	"id": "developer.publish.package",
	"effect": "ask",
	"message": sprintf("%s makes something public", [act]),
	"hint": "a dry run passes without asking",
	"subject": command.id,
} if {
	"publishes" in input.effects
	some command in input.commands
	some act in command.publishes
}
