// Package wire is the protocol between the daemon, the launcher of a session and the
// processes of a call.
//
// There are three parties:
//
//	daemon     package launch: one connection for each launcher
//	launcher   package child: one process for each session, profile and set of rules
//	init       the first process of one call; below it waits the process that will
//	           become the program
//
// There are two kinds of connection, both SEQPACKET socket pairs, so that one message
// is one read. The control socket joins the daemon and a launcher. The launcher has it
// as descriptor [SocketFD], and every init process inherits it. A slot joins the daemon
// and one process that is confined and waits. Messages are JSON, except [Ended] and the
// script of a call. If the daemon sends more than 48 KiB, that is a file of memory ([FileOf]): the
// message is then "{}" and carries the descriptor, in front of any others.
//
// Messages on the control socket, in the order of a session:
//
//	message             sender    receiver  meaning
//	Template            daemon    launcher  First message: the root directory to build.
//	Request             daemon    launcher  Second message: build the root, then make a slot.
//	                                        Later, at any time: scan the hidden paths, then
//	                                        make a slot. Each is answered once.
//	Request, Bound      daemon    launcher  The same, with the descriptors of the bound files.
//	                                        The answer brings a slot that is for this request
//	                                        alone, or an error.
//	Request, Signal≠0   daemon    launcher  Send a signal to the tree of call ID. No answer.
//	Request, Sockets    daemon    launcher  Make sockets in the network namespace of the session.
//	Message, Sockets    launcher  daemon    Answer to request Sockets: the descriptors of a TCP
//	                                        socket for IPv4 and of one for IPv6, where the kernel
//	                                        gives them. The daemon connects them.
//	Message, Error      launcher  daemon    Answer to request For: no slot can be made. The
//	                                        launcher ends after this answer to the second
//	                                        message: the root was not built.
//	Message, Slot       launcher  daemon    A slot, with its descriptor. For is the request
//	                                        that it answers, or 0 for a spare slot.
//	Message, For alone  launcher  daemon    Answer to request For: a slot that the daemon has
//	                                        (Request.Slots), or that is on its way, will do.
//	Message, Reply      launcher  daemon    Call Reply.Call has ended, with what only the
//	                                        launcher knows: denials, memory, errors.
//	Ended               init      daemon    The call has ended and there is nothing to add.
//	                                        Sent instead of Reply, never with it.
//
// If Template.Network is set, also:
//
//	message             sender    receiver  meaning
//	Message, Network    launcher  daemon    Before the answer to the second message, with three
//	                                        descriptors: UDP and TCP of the resolver, the
//	                                        listener of the proxy. NoWay instead says why there
//	                                        is no way out; calls run without one.
//	Message, Connect    launcher  daemon    A program connects to an address at which nobody
//	                                        listens yet, with the descriptor of a listener. The
//	                                        program waits. With UDP it has been refused, and
//	                                        nothing more follows.
//	Request, Connect    daemon    launcher  Answer: the connection goes on, or is refused. The
//	                                        daemon keeps the listener that was not refused.
//
// An answer (For≠0) makes every slot with other Mounts useless; the daemon closes those.
//
// Messages on a slot:
//
//	message             sender    receiver  meaning
//	script              daemon    program   Streams as descriptors, and the system calls that
//	                                        turn the process into the program; package script.
//	                                        One message, no answer. The slot is then used up.
//	                                        Above 96 KiB the calls are in a file of memory.
//
// A new message is a field of Request or [Message], and a row here.
//
// What closes:
//
//	control socket, by the daemon    The launcher ends, and every call with it. The daemon's
//	                                 death does the same.
//	control socket, by the launcher  All its calls have ended and its slots are useless. The
//	                                 reason is on its standard error.
//	slot, by the daemon, unused      The waiting process ends. No program was run.
//	slot, by the process             It was killed. Sending the script fails with EPIPE, and
//	                                 the daemon asks for another slot.
//
// Both ends are built from the same source, so there are no versions: a message that
// cannot be read ends the connection. The launcher trusts the daemon. The daemon trusts
// the launcher, which runs no instruction of a caller. Nobody trusts the program: it is
// given no end of either connection.
package wire
