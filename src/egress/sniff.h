#pragma once
#include "base/defs.h"

/*
 * Which name a client asks for, from the first bytes of its connection: the server name of a TLS
 * ClientHello, or the host of an HTTP/1 request. Pure; accepts any bytes.
 */
#define ATOLL_SNIFF_MAX ((size_t)20 * 1024) /* bytes that are looked at; more than one TLS record */
#define ATOLL_SNIFF_NAME_MAX 254

enum atoll_sniff_kind {
    ATOLL_SNIFF_MORE,  /* undecided: more bytes are needed */
    ATOLL_SNIFF_TLS,   /* a ClientHello */
    ATOLL_SNIFF_HTTP,  /* the head of an HTTP/1 request, but not of CONNECT */
    ATOLL_SNIFF_OTHER, /* another protocol */
    ATOLL_SNIFF_BAD, /* TLS or HTTP from which no single name can be read: a server may see another */
};

struct atoll_sniff {
    enum atoll_sniff_kind kind;
    /* TLS and HTTP: lower case, without port and trailing dot; "": it names none, or an address. */
    char name[ATOLL_SNIFF_NAME_MAX];
};

/* bytes: all that came so far. Never MORE for ATOLL_SNIFF_MAX bytes. */
void atoll_sniff(const uint8_t *bytes, size_t n, struct atoll_sniff *ret);
