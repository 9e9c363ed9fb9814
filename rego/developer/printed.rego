# METADATA
# title: Secrets printed
# description: Asks before a program prints a secret that it keeps.
package sandboxd.policies.developer.printed

import data.sandboxd.lib

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
		"aws ssm get-parameters", "aws ssm get-parameters-by-path", "aws ssm get-parameter-history", "aws configure export-credentials",
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
