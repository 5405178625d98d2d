#pragma once
#include <libssh/libssh.h>
#include "base/error.h"

/*
 * One connection of a client, in a process of its own: key exchange, authentication by token, and the
 * channels (session.h) until the client leaves, the token ends or the daemon refuses it. A bug or an
 * attack reaches the connection of one client only.
 *
 * The directory of the API's socket is the working directory. Blocking: everything; the process does
 * nothing else. It ends by SIGALRM if the client does not authenticate in time.
 */
struct atoll_ssh_accepted {
    int fd;        /* owned */
    int report_fd; /* one byte is written when the client has authenticated */
    ssh_key key;   /* owned */
    const char *peer;
};
void atoll_ssh_serve(struct atoll_ssh_accepted *accepted);
