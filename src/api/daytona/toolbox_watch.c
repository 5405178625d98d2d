/* GET /files/watch: changes in a directory. Daytona has no such route. */
#include "api/daytona/toolbox_internal.h"
#include "api/kit/watch_feed.h"

void atoll_daytona_file_watch(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    const char *path = atoll_toolbox_query(call, "path");

    if (path)
        atoll_watch_feed_send(call, &(struct atoll_watch_feed){.path = path,
                                                               .kind = "type",
                                                               .fail = atoll_toolbox_path_fail});
}
