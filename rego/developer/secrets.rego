# METADATA
# title: Secrets
# description: >-
#   Asks before files with secrets of the workspace are read. Those of the home
#   directory are behind the sandbox settings.
package sandboxd.policies.developer.secrets

# METADATA
# title: File with secrets
# description: Key files and files of environment variables. Samples (.env.example), public keys and writing pass.
# custom:
#   match:
#     - cat .env
#     - cat config/.env.production
#     - base64 deploy/server.key
#     - {tool: Read, class: read, reads: [/src/.env]}
#     - {tool: Read, class: read, reads: [/src/terraform.tfstate]}
#   not_match:
#     - cat .env.example
#     - cat id_ed25519.pub
#     - cat environment.go
#     - ls -a
#     - {tool: Read, class: read, reads: [/src/env.go]}
#     - {tool: Write, class: write, writes: [/src/.env]}
findings contains {
	"id": "developer.secrets.file",
	"effect": "ask",
	"message": sprintf("%s usually holds secrets", [path.raw]),
	"hint": "a sample of it, such as .env.example, passes",
	"subject": path.id,
} if {
	some path in input.paths
	path.op == "read"
	secret(path.base)
}

secret(base) if base in {
	".env", ".envrc", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", "credentials.json", "service-account.json",
	"client_secret.json", "secrets.yml", "secrets.yaml", "secrets.json", "terraform.tfstate", "id_rsa", "id_dsa", "id_ecdsa",
	"id_ed25519", ".htpasswd", "master.key", "kubeconfig",
}

secret(base) if {
	startswith(base, ".env.")
	not trim_prefix(base, ".env.") in {"example", "sample", "template", "dist", "defaults"}
}

secret(base) if strings.any_suffix_match(base, {".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"})
