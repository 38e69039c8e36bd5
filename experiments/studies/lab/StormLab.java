package lab;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.minidev.json.JSONValue;
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

/**
 * A topology of spouts and bolts that a JSON file describes, on a cluster or within this process.
 *
 * <p>{@code StormLab submit FILE} submits it; {@code StormLab local SUPERVISORS PORT FILE} runs it on a whole Storm in
 * this process, with Nimbus at a port, prints {@code nimbus PORT}, and ends when its standard input does. The file holds {@code name}, {@code
 * conf}, and {@code components}: each has {@code id}, {@code executors}, and {@code rate} (tuples/s of an executor of a
 * spout), or {@code from} and {@code grouping} (shuffle or fields), {@code micros} of work a tuple and {@code out},
 * tuples sent for each received.
 */
public final class StormLab {
    private static final Fields FIELDS = new Fields("key", "payload");

    private StormLab() {
    }

    public static void main(String[] args) throws Exception {
        Map<?, ?> spec = (Map<?, ?>) JSONValue.parse(Files.readString(Path.of(args[args.length - 1])));
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
            topology.setSpout(id, new Source(number(part, "rate", 10)), executors);
            return;
        }
        Work work = new Work(number(part, "micros", 0), number(part, "out", 1));
        BoltDeclarer bolt = topology.setBolt(id, work, executors);
        if ("fields".equals(part.get("grouping"))) {
            bolt.fieldsGrouping((String) part.get("from"), new Fields("key"));
        } else {
            bolt.shuffleGrouping((String) part.get("from"));
        }
    }

    private static double number(Map<?, ?> of, String key, double otherwise) {
        return of.get(key) == null ? otherwise : ((Number) of.get(key)).doubleValue();
    }

    /** Sends tuples with ids, so that they are acked, at a rate. */
    static final class Source extends BaseRichSpout {
        private final double rate;
        private final byte[] payload = new byte[100];
        private final Random random = new Random(1);
        private transient SpoutOutputCollector out;
        private long began;
        private long sent;

        Source(double rate) {
            this.rate = rate;
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            out = collector;
            began = System.nanoTime();
        }

        @Override
        public void nextTuple() {
            if (sent < rate * (System.nanoTime() - began) / 1e9) {
                out.emit(new Values(random.nextInt(1000), payload), sent++);
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(FIELDS);
        }
    }

    /** Computes for a while at each tuple, and sends some on. */
    static final class Work extends BaseRichBolt {
        private final double micros;
        private final double ratio;
        private transient OutputCollector out;
        private double owed;

        Work(double micros, double ratio) {
            this.micros = micros;
            this.ratio = ratio;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            out = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            long until = System.nanoTime() + (long) (1000 * micros);
            while (System.nanoTime() < until) {
                Thread.onSpinWait();
            }
            for (owed += ratio; owed >= 1; owed--) {
                out.emit(tuple, new Values(tuple.getValue(0), tuple.getValue(1)));
            }
            out.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(FIELDS);
        }
    }
}
