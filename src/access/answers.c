#include "access/answers.h"

#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/shares.h"
#include "store/answers.h"

#define KEEP_MS (INT64_C(24) * 3600 * 1000)
#define ENTRIES_MAX 4096
#define BYTES_MAX ((size_t)32 * 1024 * 1024)
#define ANSWER_MAX ((size_t)4 * 1024 * 1024)
#define STORED_MAX ((size_t)64 * 1024)

_Static_assert(ATOLL_ANSWER_REQUEST_BYTES == ATOLL_STORE_REQUEST_BYTES, "one and the same");

struct entry {
    struct atoll_kept_answer answer; /* first; its text is owned */
    struct atoll_list node;          /* in answers->by_age */
    char name[ATOLL_ANSWER_NAME_LEN + 1], owner[ATOLL_ANSWER_OWNER_LEN + 1];
    int64_t until_unix_ms;
    size_t len;  /* of the text */
    bool stored; /* has a row in the store */
};

struct atoll_answers {
    struct atoll_store *store;         /* borrowed, or NULL */
    struct atoll_map entries;          /* by name, owned */
    struct atoll_list by_age;          /* oldest first */
    struct atoll_shares counts, sizes; /* number of entries and bytes of texts, by owner */
};

static void complain(const struct atoll_error *error)
{
    atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "answer", "error", error->text, NULL);
}

static void entry_free(struct atoll_answers *answers, struct entry *e)
{
    (void)atoll_map_remove(&answers->entries, e->name);
    atoll_list_remove(&e->node);
    atoll_shares_drop(&answers->counts, e->owner, 1);
    atoll_shares_drop(&answers->sizes, e->owner, e->len);
    free((char *)e->answer.text);
    free(e);
}

static void entry_remove(struct atoll_answers *answers, struct entry *e)
{
    struct atoll_error err;

    if (e->stored && atoll_store_drop_answer(answers->store, e->name, &err) < 0)
        complain(&err);
    entry_free(answers, e);
}

/* Removes expired entries. While `count` more entries or `bytes` more bytes do not fit, also
 * removes answered entries, oldest first, of the owners that hold the most. Returns how many were
 * removed. */
static size_t remove_some(struct atoll_answers *answers, size_t count, size_t bytes)
{
    int64_t now = atoll_clock_unix_ms();
    size_t removed = 0;

    ATOLL_LIST_FOREACH (&answers->by_age, node) {
        struct entry *e = ATOLL_CONTAINER_OF(node, struct entry, node);
        bool many = answers->counts.used + count > ENTRIES_MAX;
        bool much = answers->sizes.used + bytes > BYTES_MAX;
        bool over = e->until_unix_ms <= now;
        if (!many && !much && !over)
            break;
        if (e->answer.status == 0 ||
            !(over || (many && atoll_shares_is_large(&answers->counts, e->owner)) ||
              (much && e->len > 0 && atoll_shares_is_large(&answers->sizes, e->owner))))
            continue;
        entry_remove(answers, e);
        removed++;
    }
    return removed;
}

static void make_room(struct atoll_answers *answers, size_t count, size_t bytes)
{
    while (remove_some(answers, count, bytes) > 0)
        ; /* another owner may have the most now */
}

static struct entry *entry_new(struct atoll_answers *answers, const char *name,
                               const uint8_t *request)
{
    struct entry *e = atoll_alloc(sizeof(*e));

    (void)strncpy(e->name, name, sizeof(e->name) - 1);
    memcpy(e->owner, e->name, ATOLL_ANSWER_OWNER_LEN);
    memcpy(e->answer.request, request, sizeof(e->answer.request));
    if (atoll_map_put(&answers->entries, e->name, e) < 0)
        abort();
    atoll_list_push_back(&answers->by_age, &e->node);
    atoll_shares_add(&answers->counts, e->owner, 1);
    return e;
}

static void set_text(struct atoll_answers *answers, struct entry *e, const char *text, size_t n)
{
    char *copy = strndup(text, n);

    if (!copy)
        abort();
    e->answer.text = copy;
    e->len = n;
    atoll_shares_add(&answers->sizes, e->owner, n);
}

static int load(void *arg, const struct atoll_store_answer *row, struct atoll_error *err)
{
    struct atoll_answers *answers = arg;
    struct entry *e;

    if (strlen(row->name) != ATOLL_ANSWER_NAME_LEN || row->status == 0 ||
        atoll_map_get(&answers->entries, row->name))
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "a stored answer is malformed");
    e = entry_new(answers, row->name, row->request);
    e->answer.status = row->status;
    e->until_unix_ms = row->until_unix_ms;
    e->stored = true;
    if (row->answer)
        set_text(answers, e, row->answer, strlen(row->answer));
    return 0;
}

int atoll_answers_new(struct atoll_store *store, struct atoll_answers **ret,
                      struct atoll_error *err)
{
    struct atoll_answers *answers = atoll_alloc(sizeof(*answers));
    int r = 0;

    answers->store = store;
    atoll_map_init(&answers->entries);
    atoll_list_init(&answers->by_age);
    atoll_shares_init(&answers->counts, ENTRIES_MAX);
    atoll_shares_init(&answers->sizes, BYTES_MAX);
    if (store)
        r = atoll_store_each_answer(store, load, answers, err);
    if (r < 0) {
        (void)atoll_answers_free(answers);
        return r;
    }
    make_room(answers, 0, 0);
    *ret = answers;
    return 0;
}

struct atoll_answers *atoll_answers_free(struct atoll_answers *answers)
{
    if (!answers)
        return NULL;
    while (!atoll_list_empty(&answers->by_age))
        entry_free(answers, ATOLL_CONTAINER_OF(answers->by_age.next, struct entry, node));
    atoll_map_done(&answers->entries);
    atoll_shares_done(&answers->counts);
    atoll_shares_done(&answers->sizes);
    free(answers);
    return NULL;
}

const struct atoll_kept_answer *atoll_answers_find(struct atoll_answers *answers, const char *name)
{
    const struct entry *e;

    make_room(answers, 0, 0);
    e = atoll_map_get(&answers->entries, name);
    return e ? &e->answer : NULL;
}

struct atoll_kept_answer *atoll_answers_begin(struct atoll_answers *answers, const char *name,
                                              const uint8_t *request)
{
    char owner[ATOLL_ANSWER_OWNER_LEN + 1] = "";
    struct entry *e;

    memcpy(owner, name, ATOLL_ANSWER_OWNER_LEN);
    make_room(answers, 1, 0);
    if (!atoll_shares_fits(&answers->counts, owner, 1))
        return NULL;
    e = entry_new(answers, name, request);
    e->until_unix_ms = atoll_clock_unix_ms() + KEEP_MS;
    return &e->answer;
}

void atoll_answers_keep(struct atoll_answers *answers, struct atoll_kept_answer *answer, int status,
                        const char *text, size_t n)
{
    struct entry *e = ATOLL_CONTAINER_OF(answer, struct entry, answer);
    struct atoll_store_answer row = {
        .name = e->name, .status = status, .until_unix_ms = e->until_unix_ms};
    struct atoll_error err;

    if (n <= ANSWER_MAX) {
        make_room(answers, 0, n);
        set_text(answers, e, text, n);
    }
    answer->status = status;
    if (!answers->store)
        return;
    memcpy(row.request, answer->request, sizeof(row.request));
    row.answer = n <= STORED_MAX ? answer->text : NULL;
    e->stored = atoll_store_put_answer(answers->store, &row, &err) == 0;
    if (!e->stored)
        complain(&err);
}

void atoll_answers_forget(struct atoll_answers *answers, struct atoll_kept_answer *answer)
{
    entry_remove(answers, ATOLL_CONTAINER_OF(answer, struct entry, answer));
}
