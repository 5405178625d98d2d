#pragma once
#include "api/ssh.h"
#include "loop/loop.h"
#include "net/http_server.h"

/*
 * atoll-ssh, the SSH server for sandboxes (src/ssh/), as the daemon runs it: its TCP socket, which the
 * daemon binds; a unix socket to the API that knows nobody without a key; and the process, which is
 * started again when it ends.
 *
 * Thread: the loop's. Blocking: opening, up to two seconds while an earlier atoll-ssh still has the
 * address.
 */
struct atoll_daemon_ssh;

struct atoll_daemon_ssh_config {
    struct atoll_loop *loop;
    struct atoll_http_server *server; /* borrowed: serves the unix socket */
    const char *state_dir;            /* absolute */
    int state_fd;
    const char *programs; /* directory of atoll-ssh */
    const char *listen;   /* HOST:PORT */
    const char *host;     /* the name that clients use; "": HOST */
};

/* FAILED_PRECONDITION: atoll-ssh is not installed. ALREADY_EXISTS: the address is in use. Call it before
 * the daemon drops its privileges. The texts are copied. */
int atoll_daemon_ssh_open(const struct atoll_daemon_ssh_config *config,
                          struct atoll_daemon_ssh **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends atoll-ssh. Accepts NULL. */
struct atoll_daemon_ssh *atoll_daemon_ssh_close(struct atoll_daemon_ssh *ssh);
/* Where clients reach it; NULL without one. */
const struct atoll_ssh_site *atoll_daemon_ssh_site(const struct atoll_daemon_ssh *ssh);
