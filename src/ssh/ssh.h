#pragma once
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>
#include "client/link.h"

/* What connection.c shares with its channels. Thread: the only one of the process. */

#define ATOLL_SSH_API_SOCKET "api.sock" /* in the working directory */
#define ATOLL_SSH_CHANNELS_MAX 64
#define ATOLL_SSH_PIECE ((size_t)32 * 1024) /* most bytes moved at a time */

struct atoll_ssh_link {
    ssh_session session;
    ssh_event event;
    struct atoll_client *client; /* owned; sends the token */
    char token[128], sandbox_id[ATOLL_LINK_ID_MAX];
};

/* A channel of a client. Its kind embeds it. */
struct atoll_ssh_channel {
    struct atoll_ssh_link *link; /* borrowed */
    ssh_channel channel;         /* libssh's */
    struct ssh_channel_callbacks_struct callbacks;
    uint32_t unread; /* bytes of the client that libssh holds; its window bounds them */
    bool ended;      /* the client sends no more */
    /* Moves bytes both ways as far as possible without waiting. False: the channel is finished. */
    bool (*pump)(struct atoll_ssh_channel *c);
    /* Whether pump() could move something now: libssh handles packets inside of writes, too. */
    bool (*is_ready)(const struct atoll_ssh_channel *c);
    /* Once in half a minute. May be NULL. */
    void (*tick)(struct atoll_ssh_channel *c);
    /* The client is gone, or leaves. May be NULL. */
    void (*hang_up)(struct atoll_ssh_channel *c);
    void (*free)(struct atoll_ssh_channel *c);
    int fd; /* of the daemon's side, which the event watches; ATOLL_NO_FD: none */
    short events;
};

/* forward.c: a channel of type "direct-tcpip", which is accepted here. NULL: it is refused: not a port of
 * the sandbox, or no server listens there. */
struct atoll_ssh_channel *atoll_ssh_forward_new(struct atoll_ssh_link *link, ssh_message message);
/* session.c: a channel of type "session". NULL without memory. */
struct atoll_ssh_channel *atoll_ssh_session_new(struct atoll_ssh_link *link);

/* connection.c */
/* Registers c->callbacks, of which it sets those for input; their userdata is c. */
void atoll_ssh_listen(struct atoll_ssh_channel *c);
/* Takes input of the client: the number of bytes, 0: none now, -1: there will be no more. */
int atoll_ssh_read(struct atoll_ssh_channel *c, uint8_t *bytes, size_t cap);
/* Watches the descriptor for these events of poll(); 0 or no descriptor: for none. */
void atoll_ssh_watch(struct atoll_ssh_channel *c, int fd, short events);
/* How many bytes the client takes now: bounded by its window, and 0 while earlier bytes wait in its
 * socket, so that libssh buffers no more than one piece. */
size_t atoll_ssh_room(const struct atoll_ssh_channel *c);
