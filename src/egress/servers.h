#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/defs.h"

/*
 * The name servers of a resolv.conf.
 */
#define ATOLL_SERVERS_MAX 3 /* as glibc */

struct atoll_server {
    struct sockaddr_storage address;
    socklen_t len;
};

struct atoll_servers {
    const char *path; /* borrowed */
    uint16_t port;
    struct stat seen; /* of the file, when it was read */
    struct atoll_server list[ATOLL_SERVERS_MAX];
    size_t count; /* 1 at least, once it was read */
};

void atoll_servers_init(struct atoll_servers *servers, const char *path, uint16_t port);
/* Reads the file if it has changed. Without a server in it, or without the file, it is 127.0.0.1 as
 * resolv.conf(5) says. */
void atoll_servers_refresh(struct atoll_servers *servers);
