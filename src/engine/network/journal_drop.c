#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "engine/network/network.h"

/* All files of a journal. */
void atoll_network_drop_journal(const struct atoll_networks *n, const char *id)
{
    static const char *const suffixes[] = {"", ATOLL_JOURNAL_OLDER, ATOLL_JOURNAL_SHORTENED};
    char name[64];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(suffixes); i++) {
        (void)snprintf(name, sizeof(name), "%.32s%s", id, suffixes[i]);
        (void)unlinkat(n->journal_fd, name, 0);
    }
}
