#pragma once
#include "base/buf.h"

/*
 * Frames of Engine.IO 4 and Socket.IO 5, as text messages of a WebSocket: the part that clients of this
 * facade send. Pure.
 */
enum atoll_sio_kind {
    ATOLL_SIO_OTHER,      /* valid and ignored: events and acknowledgements of clients */
    ATOLL_SIO_BAD,        /* not a frame */
    ATOLL_SIO_PING,       /* 2, with data that the answer repeats */
    ATOLL_SIO_PONG,       /* 3 */
    ATOLL_SIO_CLOSE,      /* 1 */
    ATOLL_SIO_CONNECT,    /* 40, with an object that has the token */
    ATOLL_SIO_DISCONNECT, /* 41 */
};

#define ATOLL_SIO_TOKEN_MAX 512
#define ATOLL_SIO_DATA_MAX 64

struct atoll_sio_frame {
    enum atoll_sio_kind kind;
    bool other_namespace;                /* CONNECT: to a namespace that does not exist */
    char token[ATOLL_SIO_TOKEN_MAX + 1]; /* CONNECT: "" without one */
    char data[ATOLL_SIO_DATA_MAX + 1];   /* PING */
};
void atoll_sio_parse(const uint8_t *bytes, size_t n, struct atoll_sio_frame *ret);
