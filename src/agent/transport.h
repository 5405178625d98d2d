#pragma once
#include "base/error.h"

/*
 * How the stand-alone agent is reached: the streams it can speak over, and the relay that joins one
 * of them with standard input and output, for places where a command is the only way in.
 */

#define ATOLL_AGENT_SOCKET_MODE 0600

/* A listening socket at that path, whose directory is made where it is missing. ALREADY_EXISTS when
 * somebody accepts connections there. */
int atoll_agent_transport_listen(const char *path, uint32_t mode,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_agent_transport_connect(const char *path, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_agent_transport_serial(const char *path, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Standard input and output are /dev/null afterwards. */
int atoll_agent_transport_stdio(struct atoll_error *err) ATOLL_MUST_CHECK;

/* Copies standard input to the socket and the socket to standard output until one of them is gone;
 * what ends on one side ends on the other. Takes fd over. Blocking; does not return. */
_Noreturn void atoll_agent_relay(int fd);

/* The process goes on in the background, in a session of its own and without descriptors of whoever
 * started it; the caller is that process. pid_file may be NULL. */
int atoll_agent_detach(const char *pid_file, struct atoll_error *err) ATOLL_MUST_CHECK;
