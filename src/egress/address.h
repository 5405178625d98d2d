#pragma once
#include <netinet/in.h>
#include "base/defs.h"

/* Addresses of both families as struct in6_addr, IPv4 as ::ffff:a.b.c.d. */
#define ATOLL_ADDRESS_TEXT_MAX INET6_ADDRSTRLEN

void atoll_address_from_v4(const struct in_addr *v4, struct in6_addr *ret);
/* "192.0.2.1" or "2001:db8::1"; out holds ATOLL_ADDRESS_TEXT_MAX bytes and is returned. */
const char *atoll_address_print(const struct in6_addr *address, char *out);
/* Whether the text is an address of either family; stores it. */
bool atoll_address_parse(const char *text, struct in6_addr *ret);
/* A socket address for connect(2); returns its size. */
socklen_t atoll_address_socket(const struct in6_addr *address, uint16_t port,
                               struct sockaddr_storage *ret);
