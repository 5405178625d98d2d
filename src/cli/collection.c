#include "cli/collection.h"

#include <stdio.h>
#include "cli/cli.h"

int atoll_cli_collection_list(struct atoll_cli *cli, const char *path, const char *member,
                              const char *const *columns,
                              void (*add_row)(struct atoll_cli_table *table, const json_t *item),
                              struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_cli_table table;
    const json_t *items;
    int r = atoll_cli_call(cli, "GET", path, NULL, &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    items = json_object_get(reply, member);
    atoll_cli_table_init(&table, columns);
    for (size_t i = 0; i < json_array_size(items); i++)
        add_row(&table, json_array_get(items, i));
    atoll_cli_table_finish(&table, stdout);
    return ATOLL_CLI_OK;
}

int atoll_cli_collection_remove(struct atoll_cli *cli, char **names,
                                int (*target)(const char *name, struct atoll_link_target *ret,
                                              struct atoll_error *err),
                                struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *gone = json_array();
    ATOLL_AUTOJSON json_t *object = json_pack("{s:O}", "removed", gone);
    struct atoll_link_target where;
    int r = 0;

    for (; r == 0 && *names; names++) {
        r = target(*names, &where, err);
        if (r == 0)
            r = atoll_cli_call(cli, "DELETE", where.text, NULL, NULL, err);
        if (r == 0)
            (void)json_array_append_new(gone, json_string(*names));
        if (r == 0 && !cli->json)
            (void)printf("%s\n", *names);
    }
    return r < 0 || !cli->json ? r : atoll_cli_print_json(object, err);
}
