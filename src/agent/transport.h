#pragma once
#include "base/error.h"

/*
 * Transports of the stand-alone agent, and the relay that connects standard input and output to one
 * of them, for environments that can be reached only by running a command.
 */

#define ATOLL_AGENT_SOCKET_MODE 0600

/* Creates a listening socket at the path, and its directory if that is missing. ALREADY_EXISTS if
 * another process listens there. */
int atoll_agent_transport_listen(const char *path, uint32_t mode,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_agent_transport_connect(const char *path, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_agent_transport_serial(const char *path, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Standard input and output are /dev/null afterwards. */
int atoll_agent_transport_stdio(struct atoll_error *err) ATOLL_MUST_CHECK;

/* Copies standard input to the socket and the socket to standard output until both directions ended
 * or one side failed; an end of file is passed on. Takes ownership of fd. Blocking; does not
 * return. */
_Noreturn void atoll_agent_relay(int fd);

/* Continues in a background process, in a new session and without the standard streams of the
 * process that started it. Returns in the background process. pid_file may be NULL. */
int atoll_agent_detach(const char *pid_file, struct atoll_error *err) ATOLL_MUST_CHECK;
