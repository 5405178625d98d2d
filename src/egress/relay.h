#pragma once
#include "egress/egress.h"

/*
 * Moves bytes between a client inside and a server outside, with splice(2). The end of one direction is
 * passed on and the other goes on; an abort of one side aborts the other.
 */
struct atoll_relay;

struct atoll_relay_config {
    struct atoll_box *box;    /* counts the bytes; its buckets bound the rate */
    int client_fd, server_fd; /* taken; non-blocking */
    /* Another process has the server's socket, too, and may clear O_NONBLOCK, which splice(2) obeys: bytes
     * are copied with calls that never block. */
    bool copy;
    /* Reads nothing from the client before atoll_relay_release(). */
    bool hold;
    /* While it holds, once after the start and after each atoll_relay_expect(): the client has sent
     * something, or has finished. */
    void (*on_held_input)(void *arg);
    /* Once, from the loop: both sides have finished (error 0), or one was aborted (-errno). The relay must
     * be freed. */
    void (*on_end)(void *arg, int error);
    void *arg;
};

/* -errno: the sockets are closed. */
int atoll_relay_new(const struct atoll_relay_config *config,
                    struct atoll_relay **ret) ATOLL_MUST_CHECK;
/* Closes both sockets. reset: aborts connections that have not ended by themselves (RST). Accepts NULL;
 * returns NULL. */
struct atoll_relay *atoll_relay_free(struct atoll_relay *r, bool reset);
/* The same, but gives the client's socket back. */
int atoll_relay_detach(struct atoll_relay *r);

/* Calls on_held_input when the client has sent as much as SO_RCVLOWAT of its socket says. */
void atoll_relay_expect(struct atoll_relay *r);
/* Ends the hold. Both may call on_end. */
void atoll_relay_release(struct atoll_relay *r);
/* The client's socket, borrowed. */
int atoll_relay_client(const struct atoll_relay *r);
/* Bytes that the client received and sent. */
void atoll_relay_bytes(const struct atoll_relay *r, uint64_t *ret_rx, uint64_t *ret_tx);

/* Closes a socket so that its peer gets a reset. */
void atoll_abort_socket(int fd);
