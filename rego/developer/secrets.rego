# METADATA
# title: Secrets
# description: >-
#   Asks before secrets of the workspace reach the model. Those of the home
#   directory are behind the sandbox settings.
package sandboxd.policies.developer.secrets

import data.sandboxd.lib

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

# METADATA
# title: Secret printed
# description: Programs that print a stored token or password. Logging in and listing names pass.
# custom:
#   match:
#     - gh auth token
#     - aws configure get aws_secret_access_key
#     - kubectl get secret db -o yaml
#     - vault kv get secret/db
#     - op read op://vault/item
#   not_match:
#     - gh auth status
#     - kubectl get secrets
#     - kubectl get pods -o yaml
findings contains {
	"id": "developer.secrets.printed",
	"effect": "ask",
	"message": sprintf("%s prints a secret", [concat(" ", array.slice(command.argv, 0, 3))]),
	"subject": command.id,
} if {
	some verb in input.starts
	verb in {
		"gh auth token", "glab auth token", "aws configure get", "aws secretsmanager get-secret-value", "aws ssm get-parameter",
		"gcloud auth print-access-token", "gcloud auth print-identity-token", "gcloud secrets versions", "az account get-access-token",
		"az keyvault secret", "kubectl get secret", "kubectl get secrets", "vault read", "vault kv get", "op read", "op item get", "pass show",
		"bw get", "heroku config", "fly secrets", "doppler secrets", "git credential fill", "security find-generic-password",
		"security find-internet-password", "secret-tool lookup",
	}
	some command in input.commands
	verb in command.prefixes
	prints(command)
}

prints(command) if not command.name == "kubectl"

prints(command) if {
	lib.has_flag(command, {"-o", "--output", "-oyaml", "-ojson"})
}
