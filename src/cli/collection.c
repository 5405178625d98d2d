#include "cli/collection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

#define CELL_MAX 96
#define BYTES_MAX 9e18 /* larger values do not fit an integer */

/* `member` is "MEMBER", or "OBJECT.MEMBER" for a member of a nested object. */
static const json_t *find(const json_t *item, const char *member)
{
    const char *dot = strchr(member, '.');
    char object[32];

    if (!dot)
        return json_object_get(item, member);
    (void)snprintf(object, sizeof(object), "%.*s", (int)(dot - member), member);
    return json_object_get(json_object_get(item, object), dot + 1);
}

static void join(const json_t *words, char *out, size_t cap)
{
    size_t len = 0;

    *out = '\0';
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        if (word && len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? "," : "", word);
    }
}

static void add_text(struct atoll_cli_table *table, const struct atoll_cli_column *c,
                     const char *text)
{
    if (!text || (!*text && c->form == ATOLL_CLI_FORM_WORDS))
        text = c->missing ? c->missing : "?";
    atoll_cli_table_add(table, c->colour, "%.*s", c->width ? c->width : CELL_MAX, text);
}

static void add_number(struct atoll_cli_table *table, const struct atoll_cli_column *c, double n)
{
    bool mega = c->form == ATOLL_CLI_FORM_MEGABYTES;
    double bytes = n * (mega ? 1024 * 1024 : 1);
    char text[16];

    if (c->missing && !(n > 0 && bytes < BYTES_MAX))
        atoll_cli_table_add(table, mega ? ATOLL_CLI_DIM : c->colour, "%s", c->missing);
    else if (c->form == ATOLL_CLI_FORM_NUMBER)
        atoll_cli_table_add(table, c->colour, "%.15g", n);
    else
        atoll_cli_table_add(
            table, c->colour, "%s",
            atoll_text_format_size(bytes > 0 && bytes < BYTES_MAX ? (uint64_t)bytes : 0, text));
}

static void add_cell(struct atoll_cli_table *table, const struct atoll_cli_column *c,
                     const json_t *item)
{
    const json_t *value = c->add ? NULL : find(item, c->member);
    char text[CELL_MAX];

    if (c->add) {
        c->add(table, item);
    } else if (c->form == ATOLL_CLI_FORM_TEXT) {
        add_text(table, c, json_string_value(value));
    } else if (c->form == ATOLL_CLI_FORM_WORDS) {
        join(value, text, sizeof(text));
        add_text(table, c, text);
    } else if (c->form == ATOLL_CLI_FORM_AGE) {
        add_text(table, c, atoll_cli_format_age(atoll_cli_age_of(json_string_value(value)), text));
    } else {
        add_number(table, c, json_number_value(value));
    }
}

void atoll_cli_list_print(const json_t *items, const struct atoll_cli_column *columns)
{
    const char *titles[ATOLL_CLI_COLUMNS_MAX + 1] = {NULL};
    struct atoll_cli_table table;

    for (size_t i = 0; columns[i].title && i < ATOLL_CLI_COLUMNS_MAX; i++)
        titles[i] = columns[i].title;
    atoll_cli_table_init(&table, titles);
    for (size_t i = 0; i < json_array_size(items); i++)
        for (const struct atoll_cli_column *c = columns; c->title; c++)
            add_cell(&table, c, json_array_get(items, i));
    atoll_cli_table_finish(&table, stdout);
}

int atoll_cli_list(struct atoll_cli *cli, const char *path, const char *member,
                   const struct atoll_cli_column *columns, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_call(cli, "GET", path, NULL, &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    atoll_cli_list_print(json_object_get(reply, member), columns);
    return ATOLL_CLI_OK;
}

int atoll_cli_pages(struct atoll_cli *cli, const char *path, const char *member, json_t *items,
                    struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    const char *cursor = "";
    int r;

    do {
        char target[512];
        json_t *next = NULL;
        (void)snprintf(target, sizeof(target), "%.200s%s%.200s", path, *cursor ? "&cursor=" : "",
                       cursor);
        r = atoll_cli_call(cli, "GET", target, NULL, &next, err);
        json_decref(reply);
        reply = next;
        if (r < 0)
            return r;
        (void)json_array_extend(items, json_object_get(reply, member));
        cursor = atoll_link_text(reply, "next_cursor", "");
    } while (*cursor);
    return 0;
}

int atoll_cli_show_value(struct atoll_cli *cli, const json_t *value, struct atoll_error *err)
{
    if (cli->json)
        return atoll_cli_print_json(value, err);
    if (json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) < 0)
        return atoll_fail_errno(err, EIO, "standard output");
    (void)fputc('\n', stdout);
    return ATOLL_CLI_OK;
}

int atoll_cli_show(struct atoll_cli *cli, const char *path, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_call(cli, "GET", path, NULL, &reply, err);
    return r < 0 ? r : atoll_cli_show_value(cli, reply, err);
}

int atoll_cli_post(struct atoll_cli *cli, const char *sandbox, const char *what, json_t *request,
                   int timeout_ms, json_t **ret, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", sandbox, err);

    if (r == 0 && !request)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "an argument is not valid UTF-8");
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/%s", sandbox, what);
    if (r < 0)
        return r;
    atoll_cli_set_timeout(cli, timeout_ms);
    return atoll_cli_call(cli, "POST", target.text, request, ret, err);
}

int atoll_cli_each(struct atoll_cli *cli, char **names, const char *done, bool go_on,
                   int (*act)(struct atoll_cli *cli, const char *name, const void *arg,
                              struct atoll_error *err),
                   const void *arg, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *list = json_array();
    ATOLL_AUTOJSON json_t *object = json_pack("{s:O}", done, list);
    int status = ATOLL_CLI_OK, r;

    for (; *names; names++) {
        r = act(cli, *names, arg, err);
        if (r < 0 && (!go_on || err->kind == ATOLL_ERR_UNAVAILABLE))
            return r;
        if (r < 0) {
            status = ATOLL_CLI_FAILED;
            atoll_cli_say("%s", err->text);
            continue;
        }
        (void)json_array_append_new(list, json_string(*names));
        if (!cli->json)
            (void)printf("%s\n", *names);
    }
    if (!cli->json)
        return status;
    r = atoll_cli_print_json(object, err);
    return r < 0 ? r : status;
}

/* Whether a name can be a part of a path; the daemon knows which names are valid. */
static bool is_segment(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= 64 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

int atoll_cli_collection_target(const struct atoll_cli_collection *c, const char *name,
                                struct atoll_link_target *ret, struct atoll_error *err)
{
    int r = 0;

    if (!c->by_name)
        r = atoll_link_check_id(c->what, name, err);
    else if (!is_segment(name))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "\"%.100s\" is not a valid %s name: use letters, digits, . _ - only", name,
                       c->what);
    (void)snprintf(ret->text, sizeof(ret->text), "%s/%s", c->path, name); /* both are short */
    return r;
}

int atoll_cli_collection_ls(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                            int argc ATOLL_UNUSED, char **argv ATOLL_UNUSED,
                            struct atoll_error *err)
{
    const struct atoll_cli_collection *c = cli->verb->collection;
    return atoll_cli_list(cli, c->path, c->member, c->columns, err);
}

static int remove_one(struct atoll_cli *cli, const char *name, const void *arg,
                      struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_cli_collection_target(arg, name, &target, err);
    return r < 0 ? r : atoll_cli_call(cli, "DELETE", target.text, NULL, NULL, err);
}

int atoll_cli_collection_rm(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                            int argc ATOLL_UNUSED, char **argv, struct atoll_error *err)
{
    return atoll_cli_each(cli, argv, "removed", false, remove_one, cli->verb->collection, err);
}
