"""The entries of Daytona's toolbox for git repositories."""

from route_table_daytona_toolbox import both

TABLE = both({})
