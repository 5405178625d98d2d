/*
 * Idle connections, kept for the next request to the same upstream. One list for all keys, most recently
 * used first: it is short, and busy upstreams are at its front.
 */
#include <string.h>
#include "base/text.h"
#include "net/proxy_internal.h"

#define KEPT_MAX 512
#define KEPT_PER_KEY 64
#define KEPT_MS (15 * 1000)

struct kept {
    struct atoll_list node;
    struct atoll_proxy *proxy;
    struct atoll_proxy_conn *conn; /* owned */
    int64_t since_ms;
    char key[ATOLL_PROXY_KEY_MAX];
};

static struct kept *of_node(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct kept, node);
}

static struct atoll_proxy_conn *take(struct kept *k)
{
    struct atoll_proxy_conn *conn = k->conn;

    atoll_list_remove(&k->node);
    k->proxy->idle_count--;
    free(k);
    return conn;
}

/* Bytes without a request: the connection cannot be used any more. */
static void idle_input(void *arg, const uint8_t *bytes, size_t n)
{
    (void)bytes;
    (void)n;
    (void)atoll_proxy_conn_free(take(arg));
}

static void idle_closed(void *arg, int error)
{
    (void)error;
    (void)atoll_proxy_conn_free(take(arg));
}

static void idle_drain(void *arg)
{
    (void)arg;
}

static const struct atoll_proxy_conn_events idle_events = {
    .input = idle_input,
    .drain = idle_drain,
    .closed = idle_closed,
};

struct atoll_proxy_conn *atoll_proxy_pool_take(struct atoll_proxy *proxy, const char *key)
{
    ATOLL_LIST_FOREACH (&proxy->idle, node)
        if (strcmp(of_node(node)->key, key) == 0)
            return take(of_node(node));
    return NULL;
}

static size_t count_key(const struct atoll_proxy *proxy, const char *key)
{
    size_t n = 0;

    ATOLL_LIST_FOREACH (&proxy->idle, node)
        n += strcmp(of_node(node)->key, key) == 0;
    return n;
}

void atoll_proxy_pool_put(struct atoll_proxy *proxy, const char *key, struct atoll_proxy_conn *conn)
{
    struct kept *k = proxy->idle_count < KEPT_MAX && count_key(proxy, key) < KEPT_PER_KEY
                         ? calloc(1, sizeof(*k))
                         : NULL;

    if (!k || atoll_text_copy(k->key, sizeof(k->key), key) < 0) {
        free(k);
        (void)atoll_proxy_conn_free(conn);
        return;
    }
    k->proxy = proxy;
    k->conn = conn;
    k->since_ms = atoll_loop_now_ms(proxy->config.loop);
    /* push_back on the first node inserts before it, at the front of the list. */
    atoll_list_push_back(proxy->idle.next, &k->node);
    proxy->idle_count++;
    atoll_proxy_conn_own(conn, &idle_events, k);
    atoll_proxy_conn_resume(conn);
    atoll_proxy_arm(proxy);
}

void atoll_proxy_pool_sweep(struct atoll_proxy *proxy, int64_t now_ms)
{
    ATOLL_LIST_FOREACH (&proxy->idle, node)
        if (now_ms - of_node(node)->since_ms >= KEPT_MS)
            (void)atoll_proxy_conn_free(take(of_node(node)));
}

void atoll_proxy_pool_done(struct atoll_proxy *proxy)
{
    while (!atoll_list_empty(&proxy->idle))
        (void)atoll_proxy_conn_free(take(of_node(proxy->idle.next)));
}
