package attack

func promises() []promise {
	return []promise{
		{name: "No secret is read", kernel: true, tries: secrets()},
		{name: "Nothing is written outside the workspace without a yes", kernel: true, tries: outside()},
		{name: "No byte leaves", kernel: true, tries: bytesOut()},
		{name: "No process stays", kernel: true, tries: processesLeft()},
		{name: "A request says one thing to every reader", tries: requests()},
		{name: "No agent approves its own call or loosens what judges it", tries: selfApproval()},
		{name: "What fails denies", tries: failOpen()},
		{name: "What the host runs by itself is not written silently", kernel: true, tries: runsLater()},
		{name: "One account sees and changes nothing of another", config: accountsConfig, root: true, tries: accounts()},
		{name: "People see what is there", tries: shown()},
		{name: "Text from outside does not quietly become a command", config: originsConfig, tries: origins()},
		{name: "The record cannot be changed or shortened unseen", tries: record()},
		{name: "One client cannot starve the rest", root: true, tries: starving()},
		{name: "One account cannot take the disk of the rest", root: true, tries: filling()},
		{name: "What was agreed to is what runs", config: bindingConfig, tries: binding()},
	}
}
