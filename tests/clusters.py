"""A cluster without processes: tasks run when they are sent, each with copies of what it is sent."""

import pickle
from contextlib import contextmanager


class Sent:
    """The result of a task; objects that stay with workers are copied once for each of them."""

    def __init__(self, value):
        self.value, self.copies = value, {}

    def there(self, worker):
        if worker not in self.copies:
            self.copies[worker] = pickle.loads(pickle.dumps(self.value))
        return self.copies[worker]


class Here:
    """In place of fmcli.cluster.connection.Cluster, with a number of workers."""

    def __init__(self, workers=1):
        self.places = [f"worker {number}" for number in range(workers)]
        self.signal, self.tasks, self.threads = 0, [], workers
        self.sent = self.received = 0

    def submit(self, function, *arguments, worker=None):
        self.tasks.append((function.__name__, worker))
        return Sent(function(*(self.copied(argument, worker) for argument in arguments)))

    def copied(self, argument, worker):
        if isinstance(argument, list):
            return [self.copied(one, worker) for one in argument]
        return argument.there(worker) if isinstance(argument, Sent) else pickle.loads(pickle.dumps(argument))

    def result(self, future, purpose):
        return pickle.loads(pickle.dumps(future.value))

    def results(self, futures, purpose):
        return [self.result(future, purpose) for future in futures]

    def in_order(self, items, send, purpose, at_once=False):
        return ((item, self.result(send(item), purpose(item))) for item in items)

    @contextmanager
    def deferring(self):
        yield self

    def lose(self, worker):
        """End a worker, and with it all that it has."""
        self.places.remove(worker)
