/* GET …/files/watch: changes in a directory. */
#include "api/kit/watch_feed.h"
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"

void atoll_rest_file_watch(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;

    if (atoll_rest_file_target(call, &t))
        atoll_watch_feed_send(call, &(struct atoll_watch_feed){t.user, t.path, .kind = "kind",
                                                               .fail = atoll_api_fail});
}
