package lab;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.StormSubmitter;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;

/**
 * A topology of spouts and bolts that a JSON file describes, on a cluster or within this process.
 *
 * <p>{@code StormLab submit FILE} submits it; {@code StormLab local SUPERVISORS PORT FILE} runs it on a whole Storm in
 * this process, with Nimbus at a port, prints {@code nimbus PORT}, and ends when its standard input does. The file holds {@code name}, {@code
 * conf}, and {@code components}: each has {@code id}, {@code executors}, and {@code rate} (tuples/s of an executor of a
 * spout; 0: as many as may be pending), or {@code from} and {@code grouping} (shuffle, fields or all), {@code rounds}
 * of arithmetic a tuple and {@code out}, tuples sent for each received. A spout with {@code count} sends so many
 * from each executor; with {@code ledger}, a folder, it goes on after a restart where it was not acked, and a bolt
 * writes there what it received. {@code control} is a file with the rate, in place of {@code rate}, read once a second.
 */
public final class StormLab {
    private static final Fields FIELDS = new Fields("key", "payload");

    private StormLab() {
    }

    public static void main(String[] args) throws Exception {
        Map<?, ?> spec = (Map<?, ?>) Utils.readYamlFile(args[args.length - 1]);
        String name = (String) spec.get("name");
        Config conf = new Config();
        ((Map<?, ?>) spec.get("conf")).forEach((key, value) -> conf.put((String) key, value));
        TopologyBuilder topology = new TopologyBuilder();
        for (Object part : (List<?>) spec.get("components")) {
            add((Map<?, ?>) part, topology);
        }
        if (args[0].equals("submit")) {
            StormSubmitter.submitTopology(name, conf, topology.createTopology());
            return;
        }
        Map<String, Object> daemons = Map.of(
                "storm.scheduler", "streamplace.PlanScheduler", "nimbus.monitor.freq.secs", 2,
                "supervisor.monitor.frequency.secs", 1, "executor.metrics.frequency.secs", 2,
                "nimbus.thrift.port", Integer.parseInt(args[2]));
        try (LocalCluster cluster = new LocalCluster.Builder()
                .withNimbusDaemon().withSupervisors(0).withDaemonConf(daemons).build()) {
            for (int i = 1; i <= Integer.parseInt(args[1]); i++) {
                cluster.addSupervisor(3, Map.of(), "supervisor-" + i);
            }
            cluster.submitTopology(name, conf, topology.createTopology());
            System.out.println("nimbus " + cluster.getThriftServerPort());
            System.out.flush();
            while (System.in.read() >= 0) {
                continue;
            }
            Runtime.getRuntime().halt(0); // closing it in order takes half a minute
        }
    }

    private static void add(Map<?, ?> part, TopologyBuilder topology) {
        String id = (String) part.get("id");
        int executors = (int) number(part, "executors", 1);
        if (part.get("from") == null) {
            topology.setSpout(id, new Source(part), executors);
            return;
        }
        Work work = new Work(number(part, "rounds", 0), number(part, "out", 1), (String) part.get("ledger"));
        BoltDeclarer bolt = topology.setBolt(id, work, executors);
        if ("fields".equals(part.get("grouping"))) {
            bolt.fieldsGrouping((String) part.get("from"), new Fields("key"));
        } else if ("all".equals(part.get("grouping"))) {
            bolt.allGrouping((String) part.get("from"));
        } else {
            bolt.shuffleGrouping((String) part.get("from"));
        }
    }

    private static double number(Map<?, ?> of, String key, double otherwise) {
        return of.get(key) == null ? otherwise : ((Number) of.get(key)).doubleValue();
    }

    /** Sends tuples with ids, so that they are acked, at a rate. */
    static final class Source extends BaseRichSpout {
        private double rate;
        private final long count;
        private final byte[] payload;
        private final String folder;
        private final String control;
        private final Random random = new Random(1);
        private transient SpoutOutputCollector out;
        private transient Path ledger;
        private transient TreeSet<Long> pending;
        private transient TreeSet<Long> again;
        private long first;
        private long stride;
        private long began;
        private long looked;
        private long sent;
        private long next;

        Source(Map<?, ?> part) {
            rate = number(part, "rate", 10);
            count = (long) number(part, "count", Long.MAX_VALUE);
            payload = new byte[(int) number(part, "bytes", 100)];
            folder = (String) part.get("ledger");
            control = (String) part.get("control");
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            out = collector;
            pending = new TreeSet<>();
            again = new TreeSet<>();
            first = context.getThisTaskIndex();
            stride = context.getComponentTasks(context.getThisComponentId()).size();
            if (folder != null) {
                ledger = Path.of(folder, "acked-" + first);
                try {
                    next = Files.exists(ledger) ? Long.parseLong(Files.readString(ledger)) : 0;
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            }
            began = System.nanoTime();
        }

        @Override
        public void nextTuple() {
            if (control != null && System.nanoTime() - looked > 1e9) {
                looked = System.nanoTime();
                follow();
            }
            double due = rate * (System.nanoTime() - began) / 1e9;
            if (rate > 0 && sent >= due) {
                return;
            }
            if (rate > 0 && due - sent > rate) { // a second late, on a busy machine: not made up for
                began = System.nanoTime();
                sent = 0;
            }
            Long number = again.pollFirst();
            if (number == null) {
                if (next >= count) {
                    return;
                }
                number = next++;
            }
            pending.add(number);
            sent++;
            Object key = folder == null ? (Object) random.nextInt(1000) : (Object) (first + stride * number);
            out.emit(new Values(key, payload), number);
        }

        private void follow() {
            try {
                double told = Double.parseDouble(Files.readString(Path.of(control)).trim());
                if (told != rate) {
                    rate = told;
                    began = looked;
                    sent = 0;
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void ack(Object id) {
            pending.remove(id);
            if (ledger == null) {
                return;
            }
            long done = next;
            done = pending.isEmpty() ? done : Math.min(done, pending.first());
            done = again.isEmpty() ? done : Math.min(done, again.first());
            try { // all before it are acked: a restart goes on here
                Path fresh = ledger.resolveSibling(ledger.getFileName() + ".new");
                Files.writeString(fresh, Long.toString(done));
                Files.move(fresh, ledger, StandardCopyOption.ATOMIC_MOVE);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void fail(Object id) {
            pending.remove(id);
            again.add((Long) id);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(FIELDS);
        }
    }

    /** Computes for a while at each tuple, and sends some on. */
    static final class Work extends BaseRichBolt {
        private final double rounds;
        private final double ratio;
        private final String folder;
        private transient OutputCollector out;
        private transient Writer received;
        private double owed;
        private double result = 1;

        Work(double rounds, double ratio, String folder) {
            this.rounds = rounds;
            this.ratio = ratio;
            this.folder = folder;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            out = collector;
            if (folder != null) {
                try {
                    Path file = Path.of(folder, "received-" + context.getThisTaskIndex());
                    received = Files.newBufferedWriter(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            }
        }

        @Override
        public void execute(Tuple tuple) {
            for (int i = 0; i < rounds; i++) {
                result = Math.sqrt(result + i);
            }
            for (owed += ratio; owed >= 1; owed--) {
                out.emit(tuple, new Values(tuple.getValue(0), tuple.getValue(1)));
            }
            if (received != null) {
                try { // before it is acked
                    received.write(tuple.getValue(0) + "\n");
                    received.flush();
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            }
            out.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(FIELDS);
        }
    }
}
