# METADATA
# title: Services
# description: >-
#   Asks before data of a service goes or its state changes: clouds, clusters, forges, databases, stores of secrets, and
#   what runs on this machine outside of the workspace. Help, plans and dry runs pass.
package sandboxd.policies.developer.remote

# METADATA
# title: Data destroyed elsewhere
# description: A service brings nothing back. Listing and describing pass.
# custom:
#   match:
#     - terraform -chdir=infra destroy -auto-approve
#     - kubectl delete pod a
#     - aws s3 rm s3://bucket --recursive
#     - az group delete -n x --yes
#     - gcloud -q compute instances delete x
#     - gh api -X DELETE repos/a/b
#     - helm uninstall x
#     - vault kv metadata delete secret/x
#     - psql -c 'DROP TABLE users'
#     - echo 'drop table a' | sqlite3 d.db
#     - redis-cli FLUSHALL
#     - mongosh --eval 'db.dropDatabase()'
#     - prisma migrate reset
#     - curl -sX DELETE http://127.0.0.1:9200/index
#     - ssh host 'rm -rf /srv/data'
#     - rsync -a --delete a/ host:b/
#   not_match:
#     - kubectl delete pod a --dry-run=client
#     - kubectl delete --help
#     - kubectl get pods
#     - aws s3 ls
#     - az vm list
#     - gh pr view 3
#     - psql -c 'SELECT 1'
#     - sqlite3 d.db 'delete from t where id = 1'
#     - redis-cli GET x
#     - rsync -an --delete a/ host:b/
findings contains {
	"id": "developer.remote.destroys",
	"effect": "ask",
	"message": sprintf("%s destroys data or stops what runs, outside of the workspace", [concat(" ", [act.program, act.verb])]),
	"hint": "list it first; a plan or a dry run passes without asking",
	"subject": command.id,
} if {
	"remote" in input.effects
	some command in input.commands
	some act in command.remote
	act.does == "destroys"
}

# METADATA
# title: Service changed
# description: Deploys or changes what others see or run. Plans and dry runs pass.
# custom:
#   match:
#     - terraform apply
#     - kubectl apply -f x.yaml
#     - aws ec2 run-instances --image-id x
#     - gh pr create --title x
#     - gh workflow run build.yml
#     - ansible-playbook site.yml
#     - systemctl restart x
#     - curl -X PUT https://api.example.com/x -d @README.md
#   not_match:
#     - terraform plan
#     - kubectl apply -f x.yaml --dry-run=server
#     - aws ec2 describe-instances
#     - gh pr checkout 3
#     - ansible-playbook --check site.yml
#     - systemctl status x
#     - curl -X PUT http://localhost:8080/x -d @README.md
findings contains {
	"id": "developer.remote.changes",
	"effect": "ask",
	"message": sprintf("%s changes what others see or run", [concat(" ", [act.program, act.verb])]),
	"hint": "a plan or a dry run passes without asking",
	"subject": command.id,
} if {
	"remote" in input.effects
	some command in input.commands
	some act in command.remote
	act.does == "changes"
}
