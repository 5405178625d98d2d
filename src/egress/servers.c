#include "egress/servers.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"

#define FILE_MAX (64 * 1024)

void atoll_servers_init(struct atoll_servers *servers, const char *path, uint16_t port)
{
    *servers = (struct atoll_servers){.path = path, .port = port};
}

static void add(struct atoll_servers *servers, const char *text)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_DGRAM,
        .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
    };
    struct atoll_server *server = &servers->list[servers->count];
    struct addrinfo *info;
    char port[8];

    (void)snprintf(port, sizeof(port), "%u", servers->port);
    if (servers->count == ATOLL_SERVERS_MAX || getaddrinfo(text, port, &hints, &info) != 0)
        return;
    memcpy(&server->address, info->ai_addr, info->ai_addrlen);
    server->len = info->ai_addrlen;
    servers->count++;
    freeaddrinfo(info);
}

static void parse(struct atoll_servers *servers, char *text)
{
    char *rest = text, *line;

    while ((line = strsep(&rest, "\n"))) {
        char *word = strsep(&line, " \t\r");
        if (strcmp(word, "nameserver") != 0 || !line)
            continue;
        line += strspn(line, " \t");
        line[strcspn(line, " \t\r")] = '\0';
        add(servers, line);
    }
}

static bool is_unchanged(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void atoll_servers_refresh(struct atoll_servers *servers)
{
    ATOLL_AUTOFREE char *text = NULL;
    struct stat st = {0};

    (void)stat(servers->path, &st);
    if (servers->count > 0 && is_unchanged(&st, &servers->seen))
        return;
    servers->seen = st;
    servers->count = 0;
    text = malloc(FILE_MAX);
    if (text && atoll_fd_read_file(AT_FDCWD, servers->path, text, FILE_MAX) >= 0)
        parse(servers, text);
    if (servers->count == 0)
        add(servers, "127.0.0.1");
}
