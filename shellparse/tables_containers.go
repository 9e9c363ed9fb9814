package shellparse

// tableContainers start programs elsewhere: what they are told to run there is
// data here, but what they mount is not.
var tableContainers = []string{
	"docker,podman,nerdctl,buildah,lima,colima | -H,--host:d -c,--context:d --config:r -l,--log-level:d --tlscacert,--tlscert,--tlskey:r | n",
	"docker run,docker create,podman run,podman create,nerdctl run | -v,--volume:v --mount:v --env-file:r --cidfile:w --label-file:r --device:v -e,--env:d -p,--publish:d -w,--workdir:d -u,--user:d --name:d --network,--net:d -h,--hostname:d --entrypoint:d -l,--label:d -m,--memory:d --cpus:d --restart:d --platform:d --add-host:d --ulimit:d --shm-size:d --tmpfs:d --cap-add,--cap-drop:d --security-opt:d --pid,--ipc,--userns,--uts:d --gpus:d --log-driver,--log-opt:d --pull:d --runtime:d --volumes-from:d --expose:d -a,--attach:d --health-cmd:d --dns:d --ip:d --stop-signal:d --link:d --sysctl:d --annotation:d --group-add:d --device-cgroup-rule:d --cpuset-cpus:d --oom-score-adj:d | d* | posix",
	"docker build,podman build,docker buildx,buildah build,nerdctl build | -f,--file:r -t,--tag:d --build-arg:d --iidfile:w --target:d --platform:d -o,--output:d --secret:v --ssh:d --label:d --cache-from,--cache-to:d --progress:d --network:d --metadata-file:w --build-context:d --builder:d | R* | do=dockerbuild",
	"docker cp,podman cp,nerdctl cp,kubectl cp | -c:d -n:d | q Q",
	"docker save,docker export,podman save,nerdctl save | -o,--output:w | d*",
	"docker load,docker import,podman load,nerdctl load | -i,--input:r | r d*",
	"docker compose,docker-compose,podman-compose | -f,--file:r -p,--project-name:d --env-file:r --project-directory:r --profile:d -v:d --parallel:d | d*",
	"docker *,podman *,nerdctl *,buildah *,lima *,colima * | --format:d -f,--filter:d -n,--tail:d | d*",
	"kubectl,oc,k3s | --kubeconfig:r -n,--namespace:d --context:d -s,--server:d --certificate-authority,--client-key,--client-certificate:r | n",
	"kubectl apply,kubectl create,kubectl delete,kubectl replace,kubectl diff,kubectl patch,oc apply,kubectl set,kubectl label,kubectl annotate | -f,--filename:m -k,--kustomize:R --from-file,--from-env-file:m --patch-file:r -p,--patch:d -o,--output:d -l,--selector:d -n,--namespace:d --type:d --from-literal:d --context:d --kubeconfig:r | d*",
	"kubectl *,oc *,k * | -f:d -o,--output:d -n,--namespace:d -l,--selector:d -c,--container:d --tail,--since:d --context:d --kubeconfig:r --editor:x | d*",
	"helm | --kubeconfig:r -n,--namespace:d --kube-context:d | n",
	"helm * | -f,--values:r --post-renderer:p -d,--destination,--output-dir,--untardir:w --set,--set-string:d --set-file:m --version:d --repo:u --ca-file,--cert-file,--key-file,--keyring:r -n,--namespace:d -o,--output:d --kubeconfig:r -a,--api-versions:d | d r*",
}
